#!/usr/bin/env python3
"""Debian's package index as JSON lines: apt-cache dumpavail | packages.py [PACKAGES] > lines

One line for each field: the key is /pkg/NAME/FIELD, the value the field's text, with the newlines of
a field that has several. A package that the index has twice keeps its first entry. PACKAGES ends it
after so many packages.
"""

import base64
import json
import sys


def member(name, data):
    """"name": text, or "name_b64" when the bytes are no text."""
    try:
        return f'"{name}":{json.dumps(data.decode(), ensure_ascii=False)}'
    except UnicodeDecodeError:
        return f'"{name}_b64":"{base64.b64encode(data).decode()}"'


def fields(paragraph):
    """(name, value) of each field; a line that begins with a blank continues the field above."""
    name, lines = None, []
    for line in paragraph:
        if line[:1] in (b" ", b"\t"):
            lines.append(line)
            continue
        if name is not None:
            yield name, b"\n".join(lines)
        name, _, rest = line.partition(b":")
        lines = [rest.strip()]
    if name is not None:
        yield name, b"\n".join(lines)


def paragraphs(stream):
    lines = []
    for line in stream:
        line = line.rstrip(b"\n")
        if line:
            lines.append(line)
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def main():
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else None
    seen = set()
    out = sys.stdout
    out.reconfigure(encoding="utf-8", errors="strict", newline="\n")
    for paragraph in paragraphs(sys.stdin.buffer):
        entry = dict(fields(paragraph))
        package = entry.get(b"Package")
        if not package or package in seen:
            continue
        if limit is not None and len(seen) == limit:
            break
        seen.add(package)
        for name, value in entry.items():
            key = b"/pkg/" + package + b"/" + name
            out.write("{" + member("key", key) + "," + member("value", value) + "}\n")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(1)
