#!/usr/bin/env python3
"""The catalogue of faults in docs/TESTING.md against the tests that name its ids.

catalogue.py [--root DIR]           prints what differs; exit 1 if anything does (also a rule of check.py)
catalogue.py [--root DIR] --write   makes the table's last column and its counts true

A test names an id in a comment or text ("S9", "X-H1"), in its own name (s9_..., x_h1_..., c1_c2_...), or in
the name of its file. The last column of a row lists files that do; without one it says why: "none: ...",
written by hand. What the check demands: each file that a row lists names its id, each id that a test names has a
row that lists a test, and the counts are right. --write lists all that there are (five are shown).
"""

import argparse
import os
import re
import sys

DOCUMENT = "docs/TESTING.md"
TESTS = ("tests/unit/", "tests/threads/", "tests/scenarios/", "tests/cluster/", "tests/sim/", "tests/fuzz/",
         "tests/model/")
FILES_SHOWN = 5

ROW = re.compile(r"^\| ([A-Z](?:-[A-Z])?\d+[a-z]?) \| (.*?) \| (.*) \|$")
ID = re.compile(r"(?<![\w.-])(X-[A-Z]\d+[a-z]?|[RMPSNCTL]\d{1,2})(?![\w-])")
NAMES = re.compile(r"\bTest\(\w+,\s*(\w+)")
IN_NAME = re.compile(r"(x_[a-z]\d+[a-z]?|[rmpsnctl]\d{1,2})_(?:and_)?")
COUNTS = re.compile(r"The catalogue has \d+ ids; tests name \d+ of them, \d+ have none\.")


def ids_of_name(name: str) -> set[str]:
    """x_a10_and_c2_from_an_image -> X-A10, C2: those that a name begins with."""
    found, at = set(), 0
    while match := IN_NAME.match(name, at):
        word = match.group(1)
        found.add(f"X-{word[2].upper()}{word[3:]}" if word.startswith("x_") else word.upper())
        at = match.end()
    return found


def ids_of_file(path: str, text: str) -> set[str]:
    stem = os.path.splitext(os.path.basename(path))[0].replace("_", " ")
    found = set(ID.findall(stem)) | set(ID.findall(text))
    if path.endswith(".c"):
        for name in NAMES.findall(text):
            found |= ids_of_name(name)
    return found


def named_ids(root: str, files: list[str]) -> dict[str, list[str]]:
    """id -> the tests that name it, as paths below tests/."""
    named: dict[str, list[str]] = {}
    for path in files:
        if not path.startswith(TESTS):
            continue
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            for found in ids_of_file(path, file.read()):
                named.setdefault(found, []).append(path.removeprefix("tests/"))
    return named


def cell(paths: list[str]) -> str:
    shown = ", ".join(f"`{p}`" for p in sorted(paths)[:FILES_SHOWN])
    more = len(paths) - FILES_SHOWN
    return shown if more <= 0 else f"{shown} and {more} more"


def is_true(where: str, paths: list[str]) -> bool:
    """Whether a row lists files, and nothing but files that name its id."""
    claimed = re.findall(r"`([^`]+)`", where)
    return bool(claimed) and set(claimed) <= set(paths)


def corrected(document: str, named: dict[str, list[str]], complete: bool) -> tuple[str, list[tuple[int, str]]]:
    """The document as it should be, with the rows that are true as they are unless `complete`, and what
    cannot be put right by writing: (line, message)."""
    lines, problems, rows, covered = document.split("\n"), [], set(), 0
    for number, line in enumerate(lines, 1):
        row = ROW.match(line)
        if not row:
            continue
        name, what, where = row.groups()
        if name in rows:
            problems.append((number, f"{name} is here twice"))
        rows.add(name)
        if name in named:
            covered += 1
            if is_true(where, named[name]) and not complete:
                continue
            lines[number - 1] = f"| {name} | {what} | {cell(named[name])} |"
        elif not where.startswith("none: "):
            lines[number - 1] = f"| {name} | {what} | none:  |"
            problems.append((number, f"no test names {name} any more: \"none: \" and why"))
    for name in sorted(set(named) - rows):
        problems.append((1, f"{named[name][0]} names {name}, which has no row"))
    counts = (f"The catalogue has {len(rows)} ids; tests name {covered} of them, "
              f"{len(rows) - covered} have none.")
    text = "\n".join(lines)
    if not COUNTS.search(text):
        problems.append((1, "the sentence with the counts is missing"))
    return COUNTS.sub(counts, text), problems


def problems_of(root: str, files: list[str]) -> list[tuple[int, str]]:
    with open(os.path.join(root, DOCUMENT), encoding="utf-8") as file:
        document = file.read()
    text, problems = corrected(document, named_ids(root, files), complete=False)
    for number, (old, new) in enumerate(zip(document.split("\n"), text.split("\n")), 1):
        if old != new and not any(n == number for n, _ in problems):
            problems.append((number, f"should be: {new} (python3 tests/style/catalogue.py --write)"))
    return problems


def write(root: str, files: list[str]) -> None:
    path = os.path.join(root, DOCUMENT)
    with open(path, encoding="utf-8") as file:
        text, problems = corrected(file.read(), named_ids(root, files), complete=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    for number, message in problems:
        print(f"{DOCUMENT}:{number}: {message}")


def main() -> int:
    import check  # for the list of files; it imports this module

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    root = os.path.realpath(arguments.root)
    files = check.list_files(root)
    if arguments.write:
        write(root, files)
    problems = problems_of(root, files)
    for number, message in problems:
        print(f"{DOCUMENT}:{number}: {message}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
