#!/usr/bin/env python3
"""Makes the manual pages from what they describe, so that they cannot differ from it.

pages.py --header ledgerkv.h ledgerkv_kv.h ... --errors ledgerkv_errors.h --kvctl KVCTL --version V --date YYYY-MM-DD OUT

ledgerkv(3) is the public header: its conventions, each section, each function with its comment, the table of
errors, and the options as kvctl prints them. kvctl(1) is what kvctl says of itself. OUT gets man1/ and man3/,
there also a page for each function that leads to ledgerkv(3).
"""

import argparse
import os
import re
import subprocess
import textwrap

SECTION = re.compile(r"/\* -{20,} (.+?)(?: \*/|\n|$)")
WORD = re.compile(r"(Ownership|Thread|Errors|Outcomes?|Not done)\b")
FUNCTION = re.compile(r"\b(lkv_[a-z0-9_]+)\s*\(")


# --- roff -----------------------------------------------------------------------------------------

def escape(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def plain(lines: list[str]) -> list[str]:
    """As they are, line by line."""
    return [".nf"] + [escape(line) for line in lines] + [".fi"] if lines else []


def bold(text: str) -> str:
    return "\\fB" + escape(text) + "\\fR"


def prose(text: str) -> list[str]:
    """Paragraphs; what is indented stays as it is."""
    out: list[str] = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.split("\n")
        while lines:
            table = lines[0].startswith("  ")
            size = next((i for i, line in enumerate(lines) if line.startswith("  ") != table), len(lines))
            out.append(".PP")
            if table:
                out += plain([line.rstrip() for line in textwrap.dedent("\n".join(lines[:size])).split("\n")])
            else:
                for line in lines[:size]:
                    out += [".br"] if WORD.match(line) and out[-1] != ".PP" else []
                    out.append(escape(line))
            lines = lines[size:]
    return out


def section(title: str, body: list[str]) -> list[str]:
    """A section's first paragraph needs no macro of its own."""
    return [f".SH {escape(title)}"] + (body[1:] if body[:1] == [".PP"] else body)


def page(title: str, chapter: int, names: str, about: str, arguments: argparse.Namespace,
         body: list[str]) -> str:
    head = [f".TH {title} {chapter} {arguments.date} \"ledgerkv {arguments.version}\"", ".SH NAME",
            f"{escape(names)} \\- {escape(about)}"]
    return "\n".join(head + body) + "\n"


# --- ledgerkv(3) ----------------------------------------------------------------------------------

def comment_text(comment: str) -> str:
    """The words of a /* comment */."""
    lines = comment.strip().removeprefix("/*").removesuffix("*/").split("\n")
    out = [lines[0].strip()] + [re.sub(r"^\s*\* ?", "", line) for line in lines[1:]]
    return "\n".join(line.rstrip() for line in out).strip("\n")


def blocks(text: str) -> list[str]:
    """What blank lines outside of braces and comments separate."""
    out, depth, comment, current = [], 0, False, []
    for line in text.split("\n"):
        if not line.strip() and depth == 0 and not comment:
            if current:
                out.append("\n".join(current))
            current = []
            continue
        current.append(line)
        code = re.sub(r"/\*.*?\*/|\"[^\"]*\"", "", line)
        depth += code.count("{") - code.count("}")
        comment = ("/*" in code or comment) and "*/" not in code
    return out + (["\n".join(current)] if current else [])


def declarations(code: str) -> list[str]:
    """As a program sees them: without attributes and inline bodies, lines that go on in their place."""
    out, moved = [], 0
    code = re.sub(r"static inline[^{]*\{.*?\n\}\n", "", code, flags=re.S)
    for line in code.split("\n"):
        if line.startswith("#"):
            name = re.match(r"#define (\w+(?:\(\w+\))?)", line)
            out += [name.group(1)] if name and name.group(1) not in out else []
        elif line.startswith("LKV_API"):
            shown = re.sub(r"^LKV_API (LKV_CHECK )?", "", line)
            moved = len(line) - len(shown)
            out.append(shown)
        else:
            out.append(line[moved:] if line[:moved].strip() == "" else line)
    return out


def render_block(block: str) -> list[str]:
    title = SECTION.match(block)
    if title:
        rest = comment_text("/*\n" + block[title.end():]) if "\n" in block else ""
        return section(title.group(1).upper(), prose(rest) if rest else [])
    leading = re.match(r"/\*.*?\*/\n?", block, re.S)
    words = comment_text(leading.group()) if leading else ""
    code = declarations(block[leading.end():] if leading else block)
    if not any(line.strip() for line in code):
        return prose(words) if words else []
    return [".PP", "\\fB"] + plain(code)[:-1] + ["\\fR", ".fi", ".RS 4"] + prose(words)[1:] + [".RE"]


def error_rows(text: str) -> list[list[str]]:
    rows = re.findall(r"X\((LKV_\w+), (-?\d+), LKV_(\w+), (\w+),\s*\"(.*?)\"\)", text)
    width = max(len(name) for name, *_ in rows)
    return [f"{name:<{width}}  {number:>3}  {outcome.lower().replace('_', ' '):<9} "
            f"{'retry' if retry == 'true' else '':<6} {words}" for name, number, outcome, retry, words in rows]


def ledgerkv_page(arguments: argparse.Namespace, options: list[str]) -> tuple[str, list[str]]:
    texts = []
    for name in arguments.header:
        with open(name, encoding="utf-8") as file:
            texts.append(file.read())
    header = texts[0]
    with open(arguments.errors, encoding="utf-8") as file:
        errors = error_rows(file.read())
    top = comment_text(header[:header.index("*/") + 2])
    what, _, rest = top.partition("\n")
    about = what.partition(": ")[2].rstrip(".")
    parts = [header[header.index("struct lkv; "):]] + [text.partition('extern "C" {\n#endif\n')[2] for text in texts[1:]]
    declared = "\n".join(text[:text.rindex("#ifdef __cplusplus")] for text in parts)
    body = [".SH SYNOPSIS", ".nf", bold("#include <ledgerkv.h>"),
            bold("cc program.c $(pkg-config --cflags --libs ledgerkv)"), ".fi", ".SH DESCRIPTION"]
    body += prose(rest)[1:] + [".SH TYPES"]
    for block in blocks(declared):
        rendered = render_block(block)
        body += rendered[1:] if body[-1].startswith(".SH") and rendered[:1] == [".PP"] else rendered
    body += section("OPTION LIST", ["Name, meaning, and the default in brackets.", ".PP"] + plain(options))
    body += section("ERROR CODES", ["Name, number, outcome, whether to try again, text.", ".PP"] + plain(errors))
    body += [".SH SEE ALSO", ".BR kvctl (1)"]
    names = sorted({name for line in re.findall(r"LKV_API[^;{]*;", declared) for name in FUNCTION.findall(line)[:1]})
    return page("LEDGERKV", 3, "ledgerkv", about, arguments, body), names


# --- kvctl(1) -------------------------------------------------------------------------------------

def say(kvctl: str, *words: str) -> str:
    return subprocess.run([kvctl, *words], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def chapters(text: str) -> dict[str, list[str]]:
    """Of kvctl's help: title -> lines; what comes before the first title is under ""."""
    out: dict[str, list[str]] = {"": []}
    title = ""
    lines = text.rstrip("\n").split("\n")
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if line and not line.startswith(" ") and after.startswith("  ") and lines[number - 1] == "":
            title = line
            out[title] = []
        else:
            out[title].append(line)
    return {title: "\n".join(lines).strip("\n").split("\n") for title, lines in out.items()}


def command_names(overview: str) -> list[str]:
    return re.findall(r"^  ([a-z][a-z ]*?)  +[A-Z]", overview, re.M)


def command_part(kvctl: str, name: str) -> list[str]:
    parts = chapters(say(kvctl, *name.split(), "--help"))
    usage, *rest = parts[""]
    out = [f".SS {escape(name)}", bold(usage)] + prose("\n".join(rest))
    for title in ("Options", "Examples"):
        if title in parts:
            out += [".PP", escape(title) + ":"] + plain(parts[title])
    return out


def kvctl_page(arguments: argparse.Namespace, options: list[str]) -> str:
    overview = say(arguments.kvctl, "help")
    parts = chapters(overview)
    common = next(lines for title, lines in parts.items() if title.startswith("Options of every"))
    flags = [line for line in common if line.startswith("  ")]
    words = [line for line in common if not line.startswith("  ")]
    body = [".SH SYNOPSIS", bold("kvctl [OPTION...] COMMAND [OPTION...] [WORD...]"), ".SH DESCRIPTION",
            "Serves and asks ledgerkv, an embedded, consistent key/value store on a replicated log."]
    body += prose("\n".join(words)) + [".SH OPTIONS"] + plain(flags)
    body += [".SH COMMANDS"]
    for name in command_names(overview):
        body += command_part(arguments.kvctl, name)
    body += [".SH OPTIONS OF A NODE", "As a flag of serve (\\-\\-NAME VALUE), in the environment (KVCTL_NAME), or "
             "as NAME=VALUE in the file of \\-\\-config."] + [".PP"] + plain(options)
    body += [".SH EXIT STATUS"] + plain(parts["Exit codes"][:parts["Exit codes"].index("")])
    body += [".SH SEE ALSO", ".BR ledgerkv (3)"]
    return page("KVCTL", 1, "kvctl", "serve and ask ledgerkv", arguments, body)


def node_options(kvctl: str) -> list[str]:
    parts = chapters(say(kvctl, "serve", "--help"))
    rows = next(lines for title, lines in parts.items() if title.startswith("Options of the node"))
    out = []
    for row in rows:
        name, sentence = row.strip().removeprefix("--").split(None, 1)
        out += textwrap.wrap(f"{name:<24}{sentence}", 78, subsequent_indent=" " * 24)
    return out


def write(folder: str, name: str, text: str) -> None:
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--header", required=True, nargs="+")
    for name in ("--errors", "--kvctl", "--version", "--date"):
        parser.add_argument(name, required=True)
    parser.add_argument("out")
    arguments = parser.parse_args()
    options = node_options(arguments.kvctl)
    text, names = ledgerkv_page(arguments, options)
    write(os.path.join(arguments.out, "man3"), "ledgerkv.3", text)
    for name in names:
        write(os.path.join(arguments.out, "man3"), f"{name}.3", ".so man3/ledgerkv.3\n")
    write(os.path.join(arguments.out, "man1"), "kvctl.1", kvctl_page(arguments, options))


if __name__ == "__main__":
    main()
