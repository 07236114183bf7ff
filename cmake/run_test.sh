#!/usr/bin/env bash
# Runs one test the way ctest needs it:
#
#   run_test.sh [--reports DIR] [--netns] -- COMMAND [ARG...]
#
# --reports DIR  COMMAND is built with a sanitizer. Every process it starts writes its report into
#                DIR, which is emptied first, and any report there fails the test whatever COMMAND
#                returned: Criterion counts a test as passed although a sanitizer spoke in it, and a
#                shell test rarely looks at the exit code of a server it stopped.
# --netns        COMMAND gets a network namespace with only a loopback interface, so fixed ports
#                cannot meet those of another test, build tree or user.
set -euo pipefail

reports=
netns=
while [[ $# -gt 0 ]]; do
    case $1 in
    --reports) reports=$2; shift 2 ;;
    --netns) netns=1; shift ;;
    --) shift; break ;;
    *) echo "run_test.sh: unknown option: $1" >&2; exit 3 ;;
    esac
done
if [[ $# -eq 0 ]]; then
    echo "run_test.sh: no command" >&2
    exit 3
fi

command=("$@")

if [[ -n $reports ]]; then
    rm -rf "$reports"
    mkdir -p "$reports"
    # The asan preset needs clang for this: beside ASan, gcc's libubsan ignores log_path and reports to
    # stderr only. The user's own options come first, ours win.
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:log_path=$reports/asan"
    export UBSAN_OPTIONS="${UBSAN_OPTIONS:+$UBSAN_OPTIONS:}print_stacktrace=1:log_path=$reports/ubsan"
    suppressions=$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests" && pwd)/tsan.supp
    export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}halt_on_error=1:second_deadlock_stack=1:log_path=$reports/tsan:suppressions=$suppressions"
    # TSan's shadow memory and a kernel that randomizes 32 bits of mmap addresses exclude each other.
    if setarch -R true 2>/dev/null; then
        command=(setarch -R "${command[@]}")
    fi
fi

if [[ -n $netns ]]; then
    # shellcheck disable=SC2016 # expanded by the inner shell
    inside=(sh -c 'ip link set lo up && exec "$@"' sh)
    if unshare --net "${inside[@]}" true 2>/dev/null; then
        command=(unshare --net "${inside[@]}" "${command[@]}")
    elif unshare --map-root-user --net "${inside[@]}" true 2>/dev/null; then
        command=(unshare --map-root-user --net "${inside[@]}" "${command[@]}")
    else
        echo "run_test.sh: no network namespace here; using the host's ports" >&2
    fi
fi

status=0
"${command[@]}" || status=$?

if [[ -n $reports ]]; then
    for report in "$reports"/*; do
        [[ -e $report ]] || continue
        # The leak check stops the process's threads from outside. A SIGKILL that comes in that moment, as
        # tests send, leaves this one line, which says nothing of the program.
        grep -qvE '^(==[0-9]+==Unable to get registers from thread [0-9]+\.)?$' "$report" || continue
        echo "--- sanitizer report: $report"
        head -n 200 "$report"
        # A crash keeps its own code: it says more than ours.
        [[ $status -ne 0 ]] || status=99
    done
fi
exit "$status"
