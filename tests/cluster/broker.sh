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
for id in n1 n2 n3; do
    "$KVCTL" --dir "$T/$id" read 0 --count 100000000 2>/dev/null | cut -f2 >"$T/$id.orders"
done
# A stopped member shows all that its own log has; of the longest all others are beginnings.
longest=$(wc -l "$T"/n?.orders | sort -n | tail -n 2 | head -n 1 | awk '{ print $2 }')
count=$(wc -l <"$longest")
for id in n1 n2 n3; do
    head -n "$(wc -l <"$T/$id.orders")" "$longest" | cmp - "$T/$id.orders" || fail "$id differs"
done
awk '$2 != NR { print; exit 1 }' "$longest" || fail "an order is missing or doubled"
say "$count orders, each once and in order, taken by $(awk '{ print $5 }' "$longest" | sort | uniq -c | xargs)"
[[ $count -gt 100 ]] || fail "too few"
