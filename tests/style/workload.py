"""The table of docs/TESTING.md that says where the simulator's workload has each public function, and each
flag and way to read.

A row is: names | what clients do | where. `where` names files of tests/sim and what in them does it, or
begins with "none: " and says why. Everything that the header exports stands in exactly one row, and what
a row names is really there.
"""

import glob
import os
import re
from typing import Iterator

DOCUMENT = "docs/TESTING.md"
HEADER = "lib/ledgerkv.h"
PARTS = "lib/ledgerkv*.h"
ENUMS = ("lkv_read", "lkv_range_flags", "lkv_order", "lkv_tail_flags", "lkv_op", "lkv_write_flags",
         "lkv_watch_flags")
BEGIN, END = "<!-- workload -->", "<!-- /workload -->"


def exported(header: str) -> set[str]:
    """Functions, and what stands in the enums whose members change what a function does."""
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    names = set(re.findall(r"^LKV_API[^;(]*?\b(lkv_\w+)\s*\(", code, flags=re.M))
    for enum in ENUMS:
        match = re.search(rf"enum {enum} \{{(.*?)\}}", code, flags=re.S)
        names |= set(re.findall(r"\bLKV_\w+", match.group(1))) if match else set()
    return names


def marked(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def rows(document: str) -> Iterator[tuple[int, list[str]]]:
    inside = False
    for number, line in enumerate(document.splitlines(), 1):
        inside = (inside or line == BEGIN) and line != END
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if inside and line.startswith("|") and len(cells) == 3 and marked(cells[0]):
            yield number, cells


def problems_of_row(root: str, where: str) -> Iterator[str]:
    if where.startswith("none: ") and len(where) > len("none: "):
        return
    files = [name for name in marked(where) if name.endswith(".c")]
    texts = []
    for name in files:
        path = os.path.join(root, "tests", "sim", name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
        else:
            yield f"there is no tests/sim/{name}"
    symbols = [name for name in marked(where) if not name.endswith(".c")]
    if not texts or not symbols:
        yield "expected a file of tests/sim and what in it does this, or \"none: \" and why"
    for symbol in symbols:
        if not any(re.search(rf"\b{re.escape(symbol)}\b", text) for text in texts):
            yield f"{symbol} is not in {', '.join(files)}"


def problems_of(root: str) -> list[tuple[int, str]]:
    with open(os.path.join(root, DOCUMENT), encoding="utf-8") as file:
        document = file.read()
    wanted = set()
    for path in glob.glob(os.path.join(root, PARTS)):
        with open(path, encoding="utf-8") as file:
            wanted |= exported(file.read())
    found = []
    seen: dict[str, int] = {}
    for number, cells in rows(document):
        for name in marked(cells[0]):
            if name not in wanted:
                found.append((number, f"{name} is nothing that {HEADER} has"))
            elif name in seen:
                found.append((number, f"{name} stands in line {seen[name]} too"))
            seen[name] = number
        found += [(number, problem) for problem in problems_of_row(root, cells[2])]
    missing = sorted(wanted - set(seen))
    if missing:
        found.append((1, f"the table of the workload lacks {', '.join(missing)}"))
    return found
