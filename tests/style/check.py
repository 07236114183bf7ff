#!/usr/bin/env python3
"""The house rules that a compiler does not know.

check.py [--root DIR] [RULE...]    prints file:line: message for every violation; exit 1 if any

Rules:
  arrows     which room may include which (cli -> lib -> raft, log, kv -> base; lib/uv -> base and
             lib's own headers), and where uv.h, msgpack.h and rocksdb/c.h may appear
  sizes      no file over 800 lines, no function over 70
  braces     every if, else, for and while has them (clang-format 14 cannot insert them)
  words      nothing left unfinished, no waiting by sleep in the product, no path of one machine
  catalogue  docs/TESTING.md says truly which tests name which id of the catalogue of faults
  workload   docs/TESTING.md says truly where the simulator has each public function

selftest.py plants a violation of each and checks that it is caught.
"""

import argparse
import fnmatch
import os
import posixpath
import re
import subprocess
import sys
from typing import Iterator, NamedTuple

import catalogue
import workload

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70

ROOMS = ("base", "log", "raft", "kv", "lib/uv", "lib", "cli")
PRODUCT = ("base/", "log/", "raft/", "kv/", "lib/", "cli/")
# Strangers: they see what is installed and nothing else.
STRANGERS = ("cli", "examples")

ARROWS = {
    "base": {"base"},
    "log": {"log", "base"},
    "raft": {"raft", "base"},
    "kv": {"kv", "base"},
    "lib/uv": {"lib/uv", "lib", "base"},
    "lib": {"lib", "lib/uv", "raft", "log", "kv", "base"},
    "cli": {"cli"},
    "examples": {"examples"},
}

# Installed header -> the room it comes from.
PUBLIC_HEADERS = {"ledgerkv.h": "lib", "ledgerkv_kv.h": "lib", "ledgerkv_log.h": "lib", "ledgerkv_errors.h": "base"}

MSGPACK_FILES = ("raft/wire*.c", "kv/command*.c", "kv/*codec*.c", "lib/*wire*.c")

# Assembled, so that this file does not violate its own rule.
UNFINISHED = re.compile(
    r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "not " + "implemented",
                       "un" + "implemented", "st" + "ub"]) + r")\b")
SLEEP = re.compile(r"\b(sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep|uv_sleep)\s*\(")
# Absolute only: net/work is a list of seams, not a path.
MACHINE_PATH = re.compile(r"(?<![\w.}*)/-])/(" + "|".join(["wor" + "k", "far" + "m", "roo" + "t"]) + r")(?![-.\w])")
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(?:\"([^\"\n]+)\"|<([^>\n]+)>|(.*))", re.M)


class Violation(NamedTuple):
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def list_files(root: str) -> list[str]:
    """All files of the tree, tracked or new; without git, everything but build trees."""
    if os.path.exists(os.path.join(root, ".git")):
        out = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, stdout=subprocess.PIPE).stdout.decode()
        names = set(filter(None, out.split("\0")))
        return sorted(n for n in names if os.path.isfile(os.path.join(root, n)))
    found = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [s for s in subfolders if s not in ("build", ".git", "__pycache__")]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(found)


def read(root: str, path: str) -> str:
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def is_c(path: str) -> bool:
    return path.endswith((".c", ".h"))


DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
C_TOKEN = re.compile(r"//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def blank(text: str, strings: bool) -> str:
    """The text without comments, and without the insides of strings if `strings`; every newline
    stays, so line numbers do too."""
    def replace(match: re.Match[str]) -> str:
        token = match.group()
        if token[0] in "\"'":
            return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[0] if strings else token
        return re.sub(r"[^\n]", " ", token)
    return C_TOKEN.sub(replace, text)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


# --- arrows ---------------------------------------------------------------------------------------

def room_of(path: str) -> str | None:
    for room in ROOMS + ("examples",):
        if path.startswith(room + "/"):
            return room
    return None


def target_of(root: str, path: str, include: str, quoted: bool) -> tuple[str, str] | None:
    """(room, file) that an include reaches, or None for one outside the project. A file that does
    not exist is judged by its name: a forbidden arrow is one before its end is drawn, too."""
    here = posixpath.normpath(posixpath.join(posixpath.dirname(path), include))
    if quoted and os.path.isfile(os.path.join(root, here)):
        room = room_of(here)
        return (room or here.split("/")[0], here)
    if include in PUBLIC_HEADERS:
        return (PUBLIC_HEADERS[include], include)
    normal = posixpath.normpath(include)
    room = room_of(normal)
    if room:
        return (room, normal)
    if normal.startswith(("tests/", "bench/", "demo/")):
        return (normal.split("/")[0], normal)
    return None


def check_project_include(path: str, room: str, target: tuple[str, str]) -> str | None:
    target_room, target_file = target
    if room in STRANGERS and target_file in PUBLIC_HEADERS:
        return None
    if target_room in ARROWS[room]:
        return None
    if room in STRANGERS:
        return f"{room} may include only <ledgerkv.h> and its parts from the project, not {target_file}"
    return f"{room} may not include {target_room} ({target_file})"


# Compares with RocksDB as anybody would use it.
BENCH_OF_MAPS = "bench/maps.c"


def check_foreign_include(path: str, include: str) -> str | None:
    tests = path.startswith(("tests/", "bench/"))
    if include == "uv.h" or include.startswith("uv/"):
        if not path.startswith(("lib/uv/", "examples/")) and not tests:
            return "uv.h belongs to lib/uv alone"
    if include == "msgpack.h" or include.startswith("msgpack/"):
        if not tests and not any(fnmatch.fnmatchcase(path, p) for p in MSGPACK_FILES):
            return "msgpack.h belongs to the files that encode or decode: " + ", ".join(MSGPACK_FILES)
    return None


def check_arrows(root: str, files: list[str]) -> Iterator[Violation]:
    rocksdb_in = []
    for path in filter(is_c, files):
        room = room_of(path)
        code = blank(read(root, path), strings=False)
        for match in INCLUDE.finditer(code):
            quoted, angled, other = match.groups()
            line = line_of(code, match.start())
            include = quoted or angled
            if not include:
                yield Violation(path, line, f"cannot judge this include: {other.strip()}")
                continue
            if include == "rocksdb/c.h" and path != BENCH_OF_MAPS:
                rocksdb_in.append(Violation(path, line, "rocksdb/c.h belongs to one file"))
            message = check_foreign_include(path, include)
            if not message and room:
                target = target_of(root, path, include, bool(quoted))
                message = check_project_include(path, room, target) if target else None
            if message:
                yield Violation(path, line, message)
    if len({v.path for v in rocksdb_in}) > 1:
        yield from rocksdb_in


# --- sizes ----------------------------------------------------------------------------------------

def plain_code(text: str) -> str:
    """The text without comments, insides of strings and preprocessor directives, which may hold
    unbalanced braces. A macro that is one long body is thus seen by the limit on files only."""
    return DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), blank(text, strings=True))


def functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, first line, last line) of each function definition, from its signature to its closing
    brace. Preprocessor lines count as part of what they are in."""
    code = plain_code(text)
    depth = 0
    start = 0         # where the declaration at depth 0 began
    body = False      # the outermost open brace is a function's
    for match in re.finditer(r"[{};]", code):
        char = match.group()
        if char == "{":
            if depth == 0:
                head = code[start:match.start()].strip()
                body = head.endswith(")") and "=" not in head.split("(")[0]
            depth += 1
        elif char == "}":
            depth = max(depth - 1, 0)
            if depth == 0:
                if body:
                    head = code[start:match.start()]
                    first = start + len(head) - len(head.lstrip())
                    name = re.search(r"(\w+)\s*\(", head)
                    yield (name.group(1) if name else "?", line_of(code, first), line_of(code, match.start()))
                body = False
                start = match.end()
        elif depth == 0:
            start = match.end()


def check_sizes(root: str, files: list[str]) -> Iterator[Violation]:
    for path in files:
        if not is_c(path) and not path.endswith((".sh", ".py")) and path not in ("dev", ".ci/run"):
            continue
        text = read(root, path)
        count = len(text.splitlines())
        if count > FILE_LINES_MAX:
            yield Violation(path, count, f"{count} lines, the limit is {FILE_LINES_MAX}")
        if not is_c(path):
            continue
        for name, first, last in functions(text):
            count = last - first + 1
            if count > FUNCTION_LINES_MAX:
                yield Violation(path, first, f"{name} has {count} lines, the limit is {FUNCTION_LINES_MAX}")


# --- braces ---------------------------------------------------------------------------------------

def after_parenthesis(code: str, offset: int) -> int:
    """The offset after the parenthesis that opens at `offset`, or the end of the code."""
    depth = 0
    for match in re.compile(r"[()]").finditer(code, offset):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.end()
    return len(code)


def check_braces(root: str, files: list[str]) -> Iterator[Violation]:
    for path in filter(is_c, files):
        code = plain_code(read(root, path))
        for match in re.finditer(r"\b(?:(if|for|while)\s*\(|(else)\b)", code):
            word = match.group(1) or match.group(2)
            end = match.end() if word == "else" else after_parenthesis(code, match.end() - 1)
            rest = code[end:].lstrip()
            closes_do = word == "while" and rest.startswith(";") and code[:match.start()].rstrip().endswith("}")
            else_if = word == "else" and re.match(r"if\b", rest)
            if not rest.startswith("{") and not closes_do and not else_if:
                yield Violation(path, line_of(code, match.start()), f"{word} without braces")


# --- words ----------------------------------------------------------------------------------------

def check_words(root: str, files: list[str]) -> Iterator[Violation]:
    for path in files:
        text = read(root, path)
        if "\0" in text:
            continue
        source = is_c(path) or path.endswith((".sh", ".py", ".cmake", "CMakeLists.txt")) or path in ("dev", ".ci/run")
        code = blank(text, strings=True) if is_c(path) and path.startswith(PRODUCT) else ""
        for number, line in enumerate(text.splitlines(), 1):
            if source and (word := UNFINISHED.search(line)):
                yield Violation(path, number, f"unfinished? \"{word.group()}\"")
            if found := MACHINE_PATH.search(line):
                yield Violation(path, number, f"a path of one machine: {found.group()}")
        for number, line in enumerate(code.splitlines(), 1):
            if found := SLEEP.search(line):
                yield Violation(path, number, f"{found.group(1)}: wait for an event or a deadline instead")


# --- catalogue ------------------------------------------------------------------------------------

def check_catalogue(root: str, files: list[str]) -> Iterator[Violation]:
    if catalogue.DOCUMENT in files:
        for line, message in catalogue.problems_of(root, files):
            yield Violation(catalogue.DOCUMENT, line, message)


def check_workload(root: str, files: list[str]) -> Iterator[Violation]:
    if workload.DOCUMENT in files and workload.HEADER in files:
        for line, message in workload.problems_of(root):
            yield Violation(workload.DOCUMENT, line, message)


RULES = {"arrows": check_arrows, "sizes": check_sizes, "braces": check_braces, "words": check_words,
         "catalogue": check_catalogue, "workload": check_workload}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("rules", nargs="*", metavar="RULE", help=", ".join(RULES) + "; all when none is named")
    arguments = parser.parse_args()
    unknown = set(arguments.rules) - set(RULES)
    if unknown:
        parser.error(f"no such rule: {', '.join(sorted(unknown))}")

    root = os.path.realpath(arguments.root)
    files = list_files(root)
    violations = [v for rule in arguments.rules or RULES for v in RULES[rule](root, files)]
    for violation in violations:
        print(violation)
    print(f"{len(files)} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
