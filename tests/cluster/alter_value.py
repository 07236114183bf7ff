#!/usr/bin/env python3
"""alter_value.py DATA_DIR CLUSTER_ID OLD NEW: replaces OLD by NEW, of the same size, in the payload of the one record
that has it, and makes the checksums of docs/formats/log.md fit again: what an editor does that knows the format."""

import pathlib
import struct
import sys

MAGIC = b"lRec"
HEADER = 72


def crc32c(data: bytes, crc: int = 0) -> int:
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def alter(path: pathlib.Path, cluster: int, old: bytes, new: bytes) -> bool:
    data = bytearray(path.read_bytes())
    at = data.find(old)
    start = data.rfind(MAGIC, 0, at) if at >= 0 else -1
    if start < 0:
        return False
    length, = struct.unpack_from("<I", data, start + 12)
    segment, = struct.unpack_from("<Q", data, start + 40)
    place = struct.pack("<QQQQ", cluster, 0, segment, start)
    before, = struct.unpack_from("<I", data, start + 4)
    if crc32c(place + data[start + 8:start + HEADER]) != before:
        sys.exit(f"{path}: the record at {start} is not what was expected")
    data[at:at + len(old)] = new
    struct.pack_into("<I", data, start + 8, crc32c(bytes(data[start + HEADER:start + HEADER + length])))
    struct.pack_into("<I", data, start + 4, crc32c(place + data[start + 8:start + HEADER]))
    path.write_bytes(data)
    return True


def main() -> None:
    directory, cluster, old, new = sys.argv[1:]
    if len(old) != len(new):
        sys.exit("the new value must be as long as the old one")
    segments = sorted(pathlib.Path(directory).glob("*.seg"))
    if sum(alter(s, int(cluster, 16), old.encode(), new.encode()) for s in segments) != 1:
        sys.exit(f"{old} is not in exactly one of {len(segments)} segments")


main()
