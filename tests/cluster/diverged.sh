#!/usr/bin/env bash
# X-A14: one value altered on a stopped follower, with checksums that fit. The others find out, it serves nothing,
# and what its status advises brings it back.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
K=$KVCTL

state_of() { "$K" --endpoints "127.0.0.1:$(port "$1")" status -o json 2>/dev/null >"$T/status"; cat "$T/status"; }
# shellcheck disable=SC2317 # called by within
says() { state_of "$1" | grep -q "$2"; }

for id in n1 n2 n3; do start "$id"; done
await_leader
for ((i = 1; i <= 40; i++)); do echo "{\"key\":\"k$i\",\"value\":\"value $((i + 100))\"}"; done >"$T/in"
"$K" --endpoints "$cluster" import "$T/in" >/dev/null
within 20 says n1 '"compared_index":"[1-9]' || fail "nothing was compared"
same "$(says n1 diverged && echo yes)" "" "before anything is altered"
odd=n3
[[ $(leader) != n3 ]] || odd=n2
cluster_id=$(state_of n1 | field cluster_id)

say "$odd is stopped, altered and started again"
stop "$odd"
python3 -B "$(dirname "${BASH_SOURCE[0]}")/alter_value.py" "$T/$odd/data" "$cluster_id" "value 107" "value 701"
expect 0 "$K" log verify --dir "$T/$odd"
start "$odd"
within 30 says n1 "$odd.*diverged: at entry" || fail "nobody names $odd: $(cat "$T/status")"
expect 7 "$K" --endpoints "$cluster" status
grep -q "$odd: diverged" "$T/stdout" || fail "not named: $(cat "$T/stdout")"
expect 7 "$K" --endpoints "$cluster" endpoint hash
expect 5 "$K" --endpoints "127.0.0.1:$(port "$odd")" --timeout 1s get k7
said "serves nothing"
same "$("$K" --endpoints "$cluster" get k7)" "value 107" "the others go on"
"$K" --endpoints "$cluster" put k99 99 >/dev/null

say "what it advises"
stop "$odd"
rm -f "$T/$odd"/image/* "$T/$odd"/data/*.seg
start "$odd"
within 30 agree || fail "no agreement: $(cat "$T/hash" "$T/hash.why")"
expect 0 "$K" --endpoints "$cluster" endpoint hash
within 70 says "$odd" '"state":"ok"' || fail "$(cat "$T/status")"
same "$("$K" --endpoints "127.0.0.1:$(port "$odd")" get k7)" "value 107" "on $odd"
expect 0 "$K" --endpoints "$cluster" status
for id in n1 n2 n3; do stop "$id"; done
