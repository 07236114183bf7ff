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

say "a libuv loop"
run uv_loop "$T/uv"
same "$(grep -c 'is revision' "$T/out")" 20
same "$(grep -c 'this node: leader_ready' "$T/out")" 1
run uv_loop "$T/uv"
same "$(grep -c 'is revision' "$T/out")" 20

say "a counter that is killed at any moment, and called again until it says that it is done"
killed=0
# One try of call $1, killed after some milliseconds, half of the time.
count_or_die() {
    "$examples/counter" "$T/counter" "$1" >"$T/out" 2>"$T/err" &
    others=("$!")
    if [[ $((RANDOM % 2)) -eq 0 ]]; then
        sleep "0.0$((RANDOM % 9))"
        kill -KILL "${others[0]}" 2>/dev/null || true
    fi
    wait "${others[0]}" 2>/dev/null
}
for call in $(seq 12); do
    until count_or_die "$call" 2>/dev/null; do
        killed=$((killed + 1))
        [[ $killed -lt 200 ]] || fail "call $call never ends: $(cat "$T/err")"
    done
    same "$(cat "$T/out")" "$call" "after call $call the counter is"
done
others=()
say "killed $killed times"
run counter "$T/counter" 12
same "$(cat "$T/out")" 12 "a call that was done already counts again:"
for name in counter uv_loop; do
    lines=$(wc -l <"$(dirname "$0")/../../examples/$name.c")
    [[ $lines -le 120 ]] || fail "$name.c has $lines lines"
done

say "an example that cannot open says why, and fails"
! timeout 60 "$examples/counter" /proc/none 1 >"$T/out" 2>"$T/err" || fail "counter: exit code 0"
grep -q "LKV_E" "$T/err" || fail "counter: $(cat "$T/err")"
for name in hello three_nodes epoll uv_loop; do
    ! timeout 60 "$examples/$name" /proc/none >"$T/out" 2>"$T/err" || fail "$name: exit code 0"
    grep -q "LKV_E\|/proc/none" "$T/err" || fail "$name: $(cat "$T/err")"
done
