#!/usr/bin/env python3
"""Takes one rule away at a time and sees whether the tests notice.

run.py [--list | --check] [--table FILE] [--jobs N] [NAME...]

Each mutant of mutants.py is applied to a copy of the tree in build/mutants, which is built and given to
its nets, one after the other, until one fails: it is killed. A mutant that no net catches within five
minutes of processor time survives, and the exit code is 1. A net is one of NETS or UNITS, "scenarios", or
one test: the name of its executable, or of its scenario.

  --check   only whether every mutant still fits the sources, and was killed in docs/TESTING.md (a style test)
  --table   writes each result, as it comes, into the table in Markdown between the two `mutants` marks of
            FILE; rows of mutants that were not asked for stay
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mutants import MUTANTS  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"
TREE = WORK / "tree"
BUILD = WORK / "build"
CPU_SECONDS_MAX = 300

# Steps of a net: environment and program; small steps first, so that what dies early is quick.
def _hunt(program, name, counts, extra=None):
    return [({name: str(n), **(extra or {})}, [program]) for n in counts]


NETS = {
    "core": (["unit_raft_hunt"],
             _hunt("unit_raft_hunt", "LKV_HUNT_SEEDS", (300, 3000, 30000))),
    "log": (["unit_log_crash_long"],
            _hunt("unit_log_crash_long", "LOG_CRASH_SEEDS", (3000, 100000))),
    "sim": (["simulate"],
            [({}, ["simulate", "--world", "plain", "--seeds", seeds])
             for seeds in ("1..60", "61..600", "601..3000")]),
    "sim-log": (["simulate"],
                [({}, ["simulate", "--world", "log", "--seeds", seeds])
                 for seeds in ("1..60", "61..600")]),
    "sim-rot": (["simulate"],
                [({}, ["simulate", "--world", "rot", "--seeds", seeds])
                 for seeds in ("1..60", "61..600")]),
}
# All executables of a kind, by the beginning of their names; those that hunt by themselves have nets.
UNITS = {
    "raft-units": "unit_raft_", "log-units": "unit_log_", "kv-units": "unit_kv_",
    "lib-units": "unit_lib_", "sim-units": "unit_sim_", "threads": "threads_",
}
LEFT_OUT = re.compile(r"_long$|^unit_raft_hunt$")
SCENARIOS = ROOT / "tests" / "scenarios"


def sources():
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           cwd=ROOT, check=True, capture_output=True).stdout.split(b"\0")
    return [os.fsdecode(name) for name in names if name and (ROOT / os.fsdecode(name)).is_file()]


def is_net(net):
    kind, _, file = net.partition("_")
    room, _, name = file.partition("_")
    test = {"unit": ROOT / "tests" / "unit" / room / f"{name}.c",
            "threads": ROOT / "tests" / "threads" / f"{file}.c"}.get(kind, SCENARIOS / f"{net}.txt")
    return net in NETS or net in UNITS or net == "scenarios" or test.is_file()


def misfits(mutants):
    """What no longer fits, as texts."""
    found = []
    for mutant in mutants:
        path = ROOT / mutant.file
        count = path.read_text().count(mutant.old) if path.exists() else 0
        if count != 1:
            found.append(f"{mutant.file}: mutant {mutant.name}: its text is there {count} times")
        elif mutant.old == mutant.new:
            found.append(f"{mutant.file}: mutant {mutant.name}: changes nothing")
        found += [f"mutant {mutant.name}: no net called {net}"
                  for net in mutant.nets if not is_net(net)]
    return found


def unproven(mutants, table):
    """Those without a row that says what killed them."""
    rows = {m.group(1) for m in re.finditer(r"^\| (\S+) \| [^|]+ \| [\w/-]+ \| \d+ \|$", table, re.M)}
    return [f"mutant {m.name}: no row in docs/TESTING.md (run.py --table docs/TESTING.md {m.name})"
            for m in mutants if m.name not in rows]


def copy_tree():
    """Only what differs is written, so that little is built again."""
    wanted = set(sources())
    for name in wanted:
        target = TREE / name
        data = (ROOT / name).read_bytes()
        if not target.exists() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            shutil.copymode(ROOT / name, target)
    for path in TREE.rglob("*"):
        if path.is_file() and str(path.relative_to(TREE)) not in wanted:
            path.unlink()


def quiet(command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", **more)


def configure():
    done = quiet(["cmake", "-S", str(TREE), "-B", str(BUILD), "-G", "Ninja",
                  "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g",
                  "-DLKV_WERROR=OFF"])
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)


def build(targets, jobs):
    return quiet(["ninja", "-C", str(BUILD), "-j", str(jobs), *targets])


def known_targets():
    listed = quiet(["ninja", "-C", str(BUILD), "-t", "targets", "all"]).stdout
    return sorted({m.group(1) for m in re.finditer(r"^(?:tests/)?(\w+): phony", listed, re.M)})


def program(name):
    for folder in ("tests/bin", "bin"):
        if (BUILD / folder / name).exists():
            return str(BUILD / folder / name)
    sys.exit(f"run.py: {name} was not built")


def steps_of(net, targets):
    """(targets to build, [(environment, command)])"""
    if net in NETS:
        return NETS[net]
    if net == "scenarios":
        files = sorted(SCENARIOS.rglob("*.txt"))
        return (["scenarios"], [({}, ["scenarios", str(file)]) for file in files])
    if (SCENARIOS / f"{net}.txt").exists():
        return (["scenarios"], [({}, ["scenarios", str(SCENARIOS / f"{net}.txt")])])
    if net not in UNITS:
        return ([net], [({}, [net])])
    names = [t for t in targets if t.startswith(UNITS[net]) and not LEFT_OUT.search(t)]
    return (names, [({}, [name]) for name in names])


def cpu_spent():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS_MAX, CPU_SECONDS_MAX + 5))


def run_step(environment, command, seconds):
    """True when it noticed: failed, crashed, or did not end."""
    command = [program(command[0]), *command[1:]]
    try:
        done = quiet(command, cwd=WORK, timeout=seconds, preexec_fn=limit_cpu,
                     env={**os.environ, **environment})
    except subprocess.TimeoutExpired:
        return True, "did not end"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    told = next((line for line in lines if re.search(r"seed \d+|Assertion|FAIL|violat", line)), "")
    return done.returncode != 0, told.strip()[:150]


def test_of(net, command):
    """The test within the net; a hunt is known by its net's name."""
    if net in NETS:
        return net
    if command[0] == "scenarios":
        return str(pathlib.Path(command[1]).relative_to(SCENARIOS).with_suffix(""))
    return command[0]


def judge(mutant, targets, jobs):
    """(step that noticed or None, processor seconds in the nets, what it said); step: (net, environment, command)"""
    spent = 0.0
    for net in mutant.nets:
        names, steps = steps_of(net, targets)
        built = build(names, jobs)
        if built.returncode != 0:
            sys.exit(f"mutant {mutant.name} does not build:\n{built.stdout[-3000:]}")
        for environment, command in steps:
            before = cpu_spent()
            noticed, told = run_step(environment, command, 2 * CPU_SECONDS_MAX)
            spent += cpu_spent() - before
            if noticed:
                return (net, environment, command), spent, told
            if spent > CPU_SECONDS_MAX:
                return None, spent, "processor time is over"
    return None, spent, ""


def judge_in_place(mutant, targets, jobs):
    """(test that killed it or None, processor seconds in the nets, what it said)"""
    path = TREE / mutant.file
    text = path.read_text()
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        step, spent, told = judge(mutant, targets, jobs)
    finally:
        path.write_text(text)
    if step is None:
        return None, spent, told
    net, environment, command = step
    prove_quiet(environment, command, jobs)
    return test_of(net, command), spent, told


QUIET = set()  # steps that notice nothing without a mutant


def prove_quiet(environment, command, jobs):
    """Without a mutant the step must notice nothing, or what it noticed proves nothing."""
    key = (tuple(sorted(environment.items())), tuple(command))
    if key in QUIET:
        return
    built = build([command[0]], jobs)
    if built.returncode != 0:
        sys.exit(built.stdout[-3000:])
    noticed, told = run_step(environment, command, 2 * CPU_SECONDS_MAX)
    if noticed:
        sys.exit(f"fails without a mutant: {environment} {' '.join(command)}: {told}")
    QUIET.add(key)


def write_table(path, rows):
    """Rows are in the order of the list; those of mutants that are no longer in it go."""
    text = path.read_text()
    parts = re.split(r"(<!-- /?mutants -->\n)", text)
    if len(parts) != 5:
        sys.exit(f"{path}: expected one pair of <!-- mutants --> and <!-- /mutants -->")
    told = {m.group(1): m.group(0) for m in re.finditer(r"^\| (\S+) \|.*$", parts[2], re.M)}
    told.update({m.name: f"| {m.name} | {m.rule} | {test or '**survived**'} | {spent:.0f} |"
                 for m, test, spent in rows})
    table = ["| mutant | rule | killed by | CPU s |", "|---|---|---|---|"]
    table += [told[m.name] for m in MUTANTS if m.name in told]
    parts[2] = "\n".join(table) + "\n"
    path.write_text("".join(parts))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        sys.exit(f"run.py: no such mutant: {', '.join(sorted(unknown))} (--list has them)")
    mutants = [m for m in MUTANTS if not arguments.names or m.name in arguments.names]
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.name:40} rule {mutant.rule:4} {mutant.file}")
        return 0
    found = misfits(MUTANTS)
    if arguments.check:
        found += unproven(MUTANTS, (ROOT / "docs" / "TESTING.md").read_text())
    if found or arguments.check:
        print("\n".join(found) or f"{len(MUTANTS)} mutants fit")
        return 1 if found else 0

    TREE.mkdir(parents=True, exist_ok=True)
    copy_tree()
    configure()
    targets = known_targets()
    rows = []
    for mutant in mutants:
        begun = time.monotonic()
        test, spent, told = judge_in_place(mutant, targets, arguments.jobs)
        rows.append((mutant, test, spent))
        print(f"{mutant.name:40} {'killed by ' + test if test else 'SURVIVED':40} "
              f"{spent:6.1f} s of CPU, {time.monotonic() - begun:6.1f} s in all  {told}", flush=True)
        if arguments.table:
            write_table(arguments.table, rows)
    survived = [m.name for m, test, _ in rows if test is None]
    print(f"{len(rows)} mutants, {len(rows) - len(survived)} killed"
          + (f"; survived: {', '.join(survived)}" if survived else ""))
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
