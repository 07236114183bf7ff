#!/usr/bin/env python3
"""garbage.py PORT: what no client and no peer would send. Exit 1 if a connection is not closed.

Each shape must end with the node closing the connection, within the time that it grants for a header
or a frame; until then it may answer with at most a small error frame.
"""

import random
import socket
import struct
import sys
import threading
import time

CLOSE_SECONDS = 15
ANSWER_BYTES_MAX = 4096

problems = []


def closed(name, sock, seconds=CLOSE_SECONDS):
    """Reads until the node closes."""
    end = time.monotonic() + seconds
    answer = 0
    while time.monotonic() < end:
        sock.settimeout(max(end - time.monotonic(), 0.01))
        try:
            data = sock.recv(65536)
        except ConnectionError:
            return
        except socket.timeout:
            break
        if not data:
            return
        answer += len(data)
        if answer > ANSWER_BYTES_MAX:
            problems.append(f"{name}: answered with {answer} bytes and more")
            return
    problems.append(f"{name}: still open after {seconds} s")


def send(port, name, data, finish=False):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        try:
            sock.sendall(data)
            if finish:
                sock.shutdown(socket.SHUT_WR)
        except (ConnectionError, socket.timeout):
            pass  # closed while we were sending: as it must be
        closed(name, sock)


def drip(port, name, data, pause):
    """One byte at a time: must be closed at the header's deadline although bytes keep coming."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        end = time.monotonic() + CLOSE_SECONDS
        for byte in data:
            if time.monotonic() > end:
                problems.append(f"{name}: fed for {CLOSE_SECONDS} s and still open")
                return
            try:
                sock.sendall(bytes([byte]))
                sock.settimeout(pause)
                if not sock.recv(1):
                    return
            except socket.timeout:
                continue
            except ConnectionError:
                return
        closed(name, sock)


def main():
    port = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    lengths = [0, 1, (1 << 24) - 1, 1 << 24, 17 << 20, 1 << 31, (1 << 32) - 1]
    jobs = []

    def job(function, name, *args):
        jobs.append(threading.Thread(target=function, args=(port, name, *args)))

    for i in range(20):
        data = rng.randbytes(rng.choice([1, 7, 64, 1000, 100000]))
        job(send, f"random {i}", data, True)
    for length in lengths:
        job(send, f"little-endian length {length}", struct.pack("<I", length) + b"hello" * 20, True)
        job(send, f"big-endian length {length}", struct.pack(">I", length) + b"hello" * 20, True)
    job(send, "an array of 16 M in a client's frame", b"\x94\x00\x01\xa3put\xdd\x00\xff\xff\xff", True)
    job(send, "a map of 4 G", b"\x94\x00\x01\xa3put\xdf\xff\xff\xff\xff", True)
    job(send, "a string of 4 G", b"\x94\x00\x01\xdb\xff\xff\xff\xff", True)
    job(send, "100,000 nested arrays", b"\x94\x00\x01\xa3put" + b"\x91" * 100000, True)
    job(send, "a web browser", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", True)
    job(send, "TLS", bytes.fromhex("16030100c8010000c40303") + rng.randbytes(200), True)
    job(drip, "a byte each half second", b"\x10\x00\x00\x00" + b"z" * 60, 0.5)

    for thread in jobs:
        thread.start()
    for thread in jobs:
        thread.join()
    for problem in problems:
        print(problem)
    print(f"{len(jobs)} connections, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
