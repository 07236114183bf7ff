#!/usr/bin/env bash
# Without a majority: writes are refused or unknown, never acknowledged (C6); a leader that was paused
# does not keep what was never committed; unknown writes are all or nothing on every node.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for id in n1 n2 n3; do start "$id"; done
await_leader
old=$(leader)
rest=()
for id in n1 n2 n3; do [[ $id == "$old" ]] || rest+=("$id"); done

say "both followers paused: a write gets no acknowledgement, and the exit code says so"
"$KVCTL" --endpoints "$cluster" put steady 1 >/dev/null
for id in "${rest[@]}"; do kill -STOP "${pid[$id]}"; done
code=0
"$KVCTL" --endpoints "127.0.0.1:$(port "$old")" --timeout 2s put lonely 1 2>"$T/stderr" || code=$?
say "exit code $code: $(cat "$T/stderr")"
[[ $code -eq 5 || $code -eq 6 ]] || fail "a write without a quorum ended with $code"
code=0
"$KVCTL" --endpoints "127.0.0.1:$(port "$old")" --timeout 2s get steady >/dev/null 2>"$T/stderr" || code=$?
[[ $code -eq 5 || $code -eq 2 ]] || fail "a linearizable read without a quorum ended with $code"
expect 0 "$KVCTL" --endpoints "127.0.0.1:$(port "$old")" --timeout 2s get steady --local
for id in "${rest[@]}"; do kill -CONT "${pid[$id]}"; done
await_leader

say "the leader paused: the others elect, and it follows when it wakes"
old=$(leader)
writer load 4
sleep 1
kill -STOP "${pid[$old]}"
sleep 2
survivors=$(for id in n1 n2 n3; do [[ $id == "$old" ]] || echo "127.0.0.1:$(port "$id")"; done | paste -sd,)
within 10 has_leader "$survivors" || fail "no leader among the other two"
[[ $(leader "$survivors") != "$old" ]] || fail "$old still leads although it is paused"
kill -CONT "${pid[$old]}"
sleep 1
stop_writers
"$KVCTL" --endpoints "$cluster" del steady >/dev/null
"$KVCTL" --endpoints "$cluster" del lonely >/dev/null
check_acknowledged
check_agreement
for id in n1 n2 n3; do stop "$id"; done
