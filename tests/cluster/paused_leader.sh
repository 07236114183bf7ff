#!/usr/bin/env bash
# A leader that is paused keeps its connections, and its system still accepts new ones, but it says
# nothing: clients go on at another node within some seconds. What it had been sent is unknown, or, in a
# session, repeated there.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

GAP_MS_MAX=5000 # 2.5 s of silence, and some for a busy machine

# went_on NAME: the writer's longest time without an acknowledgement.
went_on() {
    local gap
    gap=$(field gap_ms <"$T/$1.json")
    say "$1: $(cat "$T/$1.json")"
    [[ ${gap%.*} -le $GAP_MS_MAX ]] || fail "$1 went $gap ms without an acknowledgement"
}

for id in n1 n2 n3; do start "$id"; done
await_leader
paused=$(leader)
rest=()
for id in n1 n2 n3; do [[ $id == "$paused" ]] || rest+=("127.0.0.1:$(port "$id")"); done

say "the leader $paused is paused under load; endpoints in both orders"
all=$cluster
cluster="127.0.0.1:$(port "$paused"),${rest[0]},${rest[1]}"
writer first 16
cluster="${rest[0]},127.0.0.1:$(port "$paused"),${rest[1]}"
writer second 16
"$KVCTL" --endpoints "$cluster" bench put --clients 64 --duration 8s --warmup 0s --rate 500 -o json \
    >"$T/bench.json" 2>"$T/bench.err" &
bench=$!
others+=("$bench")
sleep 1
kill -STOP "${pid[$paused]}"
sleep 6
stop_writers
went_on first
went_on second
wait "$bench" || true # 6: some are unknown
say "bench: $(cat "$T/bench.json")"
# Imports write in sessions: what the paused leader had is repeated elsewhere, once. A plain put is not.
for name in first second; do
    [[ $(field unknown <"$T/$name.json") -eq 0 ]] || fail "$name: a session's write is unknown"
done
[[ $(field unknown <"$T/bench.json") -gt 0 ]] || fail "what the paused leader had of the bench is unknown"
ops=$(field ops <"$T/bench.json")
[[ $ops -gt 1000 ]] || fail "the bench went on with $ops operations only"

say "a first endpoint that accepts and never answers: the next one is asked"
cluster="127.0.0.1:$(port "$paused"),${rest[0]},${rest[1]}"
begun=$(now_ms)
expect 0 "$KVCTL" --endpoints "$cluster" get first/000000001
say "a read took $(($(now_ms) - begun)) ms"
[[ $(($(now_ms) - begun)) -le $GAP_MS_MAX ]] || fail "that is too long"
writer third 64
sleep 4
stop_writers
went_on third

kill -CONT "${pid[$paused]}"
cluster=$all
await_leader
"$KVCTL" --endpoints "$cluster" del --prefix bench/ >/dev/null
check_acknowledged
check_agreement
for id in n1 n2 n3; do stop "$id"; done
