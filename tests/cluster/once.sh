#!/usr/bin/env bash
# Clients with sessions while random nodes are killed: no write ends as unknown although leaders go, every
# write took effect exactly once, and the whole history is linearizable (C1, C2, C6, X-A10).
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for id in n1 n2 n3; do start "$id"; done
await_leader

"$KVCTL" --endpoints "$cluster" --timeout 20s bench mixed --session --reads 50 --clients 8 --keys 40 \
    --duration 12s --value-size 24 --prefix once/ --history "$T/history" -o json >"$T/bench.json" 2>"$T/bench.err" &
load=$!
others+=("$load")
for i in 1 2 3 4 5; do
    sleep 1.5
    victim=n$((RANDOM % 3 + 1))
    [[ $((i % 2)) -eq 1 ]] && victim=$(leader) && [[ -z $victim ]] && victim=n1
    kill_hard "$victim"
    sleep 0.3
    start "$victim"
done
status=0
wait "$load" || status=$?
same "$status" 0 "the load ended with"
await_leader

"$KVCTL" --endpoints "$cluster" get --prefix once/ -o json |
    sed 's/.*"key":"\([^"]*\)".*"version":"\([0-9]*\)".*/\1\t\2/' >"$T/versions"
say "$(cat "$T/bench.json")"
[[ $(wc -l <"$T/versions") -gt 0 ]] || fail "nothing was written"
say "$("$WITNESS" "$T/history" "$T/versions")" || fail "the history is wrong"
say "$("$CHECK_HISTORY" "$T/history")" || fail "the history is not linearizable"
same "$(field unknown <"$T/bench.json")" 0 "outcomes unknown:"
check_agreement
for id in n1 n2 n3; do stop "$id"; done
