#!/usr/bin/env python3
"""Takes one rule away at a time and sees whether the tests notice.

run.py [--list | --check] [--table FILE] [--jobs N] [NAME...]

Each mutant of mutants.py is applied to a copy of the tree in build/mutants, which is built and given to
its nets, one after the other, until one fails: it is killed. A mutant that no net catches within five
minutes of processor time survives, and the exit code is 1.

  --check   only whether every mutant still fits the sources (a style test)
  --table   writes the results as a table in Markdown between the two `mutants` marks of FILE
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
            [({}, ["simulate", "--seeds", seeds]) for seeds in ("1..60", "61..600", "601..3000")]),
}
# All executables of a kind, by the beginning of their names; those that hunt by themselves have nets.
UNITS = {
    "raft-units": "unit_raft_", "log-units": "unit_log_", "kv-units": "unit_kv_",
    "lib-units": "unit_lib_", "sim-units": "unit_sim_", "threads": "threads_",
}
LEFT_OUT = re.compile(r"_long$|^unit_raft_hunt$")


def sources():
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           cwd=ROOT, check=True, capture_output=True).stdout.split(b"\0")
    return [os.fsdecode(name) for name in names if name and (ROOT / os.fsdecode(name)).is_file()]


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
                  for net in mutant.nets if net not in NETS and net not in UNITS
                  and net != "scenarios"]
    return found


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
        files = sorted((ROOT / "tests" / "scenarios").rglob("*.txt"))
        return (["scenarios"], [({}, ["scenarios", str(file)]) for file in files])
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


def judge(mutant, targets, jobs):
    """(net that killed it or None, processor seconds in the nets, what it said)"""
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
                return net, spent, told
            if spent > CPU_SECONDS_MAX:
                return None, spent, "processor time is over"
    return None, spent, ""


def judge_in_place(mutant, targets, jobs):
    path = TREE / mutant.file
    text = path.read_text()
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        return judge(mutant, targets, jobs)
    finally:
        path.write_text(text)


def healthy(mutants, targets, jobs):
    """Without a mutant every net must be quiet, or killing proves nothing."""
    for net in sorted({net for mutant in mutants for net in mutant.nets}):
        names, steps = steps_of(net, targets)
        built = build(names, jobs)
        if built.returncode != 0:
            sys.exit(built.stdout[-3000:])
        for environment, command in steps[:1] if net in NETS else steps:
            noticed, told = run_step(environment, command, 2 * CPU_SECONDS_MAX)
            if noticed:
                sys.exit(f"{net}: fails without a mutant: {command[0]}: {told}")


def write_table(path, rows):
    table = ["| mutant | rule | killed by | CPU s |", "|---|---|---|---|"]
    table += [f"| {m.name} | {m.rule} | {net or '**survived**'} | {spent:.0f} |"
              for m, net, spent in rows]
    text = path.read_text()
    parts = re.split(r"(<!-- /?mutants -->\n)", text)
    if len(parts) != 5:
        sys.exit(f"{path}: expected one pair of <!-- mutants --> and <!-- /mutants -->")
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
    if found or arguments.check:
        print("\n".join(found) or f"{len(MUTANTS)} mutants fit")
        return 1 if found else 0

    TREE.mkdir(parents=True, exist_ok=True)
    copy_tree()
    configure()
    targets = known_targets()
    healthy(mutants, targets, arguments.jobs)
    rows = []
    for mutant in mutants:
        begun = time.monotonic()
        net, spent, told = judge_in_place(mutant, targets, arguments.jobs)
        rows.append((mutant, net, spent))
        print(f"{mutant.name:40} {'killed by ' + net if net else 'SURVIVED':24} "
              f"{spent:6.1f} s of CPU, {time.monotonic() - begun:6.1f} s in all  {told}", flush=True)
    survived = [m.name for m, net, _ in rows if net is None]
    print(f"{len(rows)} mutants, {len(rows) - len(survived)} killed"
          + (f"; survived: {', '.join(survived)}" if survived else ""))
    if arguments.table:
        write_table(arguments.table, rows)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
