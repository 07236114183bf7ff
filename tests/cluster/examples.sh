#!/usr/bin/env bash
# Each example does what its first comment says, twice in a row on the same directory (X-H3).
# shellcheck source=tests/cluster/lib.sh
. "$(dirname "$0")/lib.sh"

examples=$(dirname "$KVCTL")/../examples
run() { # NAME ARG...: its output in $T/out
    local name=$1
    shift
    timeout 60 "$examples/$name" "$@" >"$T/out" 2>"$T/$name.err" || fail "$name: exit code $?"
    [[ ! -s $T/$name.err ]] || fail "$name says on stderr: $(cat "$T/$name.err")"
}

say "hello"
run hello "$T/hello"
same "$(cat "$T/out")" "hello, for the 1. time"
run hello "$T/hello"
same "$(cat "$T/out")" "hello, for the 2. time"
same "$("$KVCTL" --dir "$T/hello" get greeting)" hello

say "three nodes: the leader goes, the others go on"
for _ in 1 2; do
    run three_nodes "$T/three" 7101
    same "$(grep -c 'reads red' "$T/out")" 3
    same "$(grep -c 'the leader, is gone' "$T/out")" 1
    same "$(grep -c 'reads green' "$T/out")" 2
done
lines=$(wc -l <"$(dirname "$0")/../../examples/three_nodes.c")
[[ $lines -le 120 ]] || fail "three_nodes.c has $lines lines"

say "epoll"
run epoll "$T/epoll"
same "$(grep -c 'done at revision' "$T/out")" 20
same "$(sort -u "$T/out" | wc -l)" 20
run epoll "$T/epoll"
same "$(grep -c 'done at revision' "$T/out")" 20

say "an example that cannot open says why, and fails"
for name in hello three_nodes epoll; do
    ! timeout 60 "$examples/$name" /proc/none >"$T/out" 2>"$T/err" || fail "$name: exit code 0"
    grep -q "LKV_E\|/proc/none" "$T/err" || fail "$name: $(cat "$T/err")"
done
