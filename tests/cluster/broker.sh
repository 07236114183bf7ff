#!/usr/bin/env bash
# examples/broker.c under SIGKILL: no order is lost, none is doubled, and every broker says who is master.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
broker=$(dirname "$KVCTL")/../examples/broker
[[ -x $broker ]] || fail "no example at $broker"

declare -A before=()
started() { grep -sc '(started)' "$T/$1.said" || true; }
start_broker() {
    before[$1]=$(started "$1")
    "$broker" "$1" "$T/$1" "$peers" >>"$T/$1.said" 2>>"$T/$1.err" &
    pid[$1]=$!
}
# It has come so far that a signal ends it in order.
# shellcheck disable=SC2329,SC2317 # called by within
has_started() { [[ $(started "$1") -gt ${before[$1]:-0} ]]; }
# shellcheck disable=SC2329,SC2317 # called by within
has_master() { grep -qh 'is master' "$T"/*.said; }

for id in n1 n2 n3; do start_broker "$id"; done
within 20 has_master || fail "no master after 20 s"
killed=0
end=$((SECONDS + 12))
while [[ $SECONDS -lt $end ]]; do
    sleep 1.5
    # The one that said so last, mostly; else any.
    victim=$(grep -h 'is master' "$T"/*.said | sort -t' ' -k6n | tail -n 1 | cut -d' ' -f1)
    [[ $((RANDOM % 3)) -gt 0 ]] || victim=n$((RANDOM % 3 + 1))
    kill -0 "${pid[$victim]}" || fail "$victim has ended: $(tail -n 3 "$T/$victim.said")"
    kill_hard "$victim"
    killed=$((killed + 1))
    sleep 0.4
    start_broker "$victim"
done
sleep 1
for id in n1 n2 n3; do within 20 has_started "$id" || fail "$id does not start"; done
for id in n1 n2 n3; do stop "$id"; done

say "killed $killed times; masters: $(cat "$T"/*.said | grep -c 'is master')"
[[ $(grep -lh 'is master' "$T"/*.said | wc -l) -ge 2 ]] || fail "only one broker was ever master"
# What a stopped member had under way may be in its own log alone. So the three come back once more, without a broker on
# top, and agree on what is committed: that is the same on all, and nothing that a broker has read is missing from it.
for id in n1 n2 n3; do start "$id" --model log; done
check_agreement
for id in n1 n2 n3; do
    "$KVCTL" --endpoints "127.0.0.1:$(port "$id")" read 0 --count 100000000 2>"$T/why" | cut -f2 >"$T/$id.orders" ||
        fail "$id: $(cat "$T/why")"
done
for id in n1 n2 n3; do stop "$id"; done
for id in n2 n3; do cmp "$T/n1.orders" "$T/$id.orders" || fail "$id differs"; done
count=$(wc -l <"$T/n1.orders")
read_before=$(cat "$T"/n?.said | sed -n 's/.* has read \([0-9]*\) orders/\1/p' | sort -n | tail -n 1)
[[ $count -ge $read_before ]] || fail "$read_before orders had been read, and there are $count"
awk '$2 != NR { print; exit 1 }' "$T/n1.orders" || fail "an order is missing or doubled"
say "$count orders, each once and in order, taken by $(awk '{ print $5 }' "$T/n1.orders" | sort | uniq -c | xargs)"
[[ $count -gt 100 ]] || fail "too few"
