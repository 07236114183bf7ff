#!/usr/bin/env bash
# A member whose directory was lost runs, and its cluster does not take it (rule 18): status and endpoint
# hash judge by the members that form the cluster, whichever endpoint comes first, and name the other one.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
for id in n1 n2 n3; do start "$id"; done
await_leader
for i in 1 2 3 4 5; do "$K" --endpoints "$cluster" put "k$i" "$i" >/dev/null; done
stop n1
rm -rf "$T/n1"
start n1
healthy=127.0.0.1:7102,127.0.0.1:7103
await_leader "$healthy"

say "the wiped one alone says what is wrong"
# shellcheck disable=SC2329,SC2317 # called by within
knows_it_is_wiped() {
    "$K" --endpoints 127.0.0.1:7101 --timeout 2s status >"$T/stdout" 2>&1 || true
    grep -q "^unhealthy: n1 knows no leader (.*knows n1" "$T/stdout"
}
within 20 knows_it_is_wiped || fail "n1 does not say so: $("$K" --endpoints 127.0.0.1:7101 status)"
expect 5 "$K" --endpoints 127.0.0.1:7101 status

# shellcheck disable=SC2329,SC2317 # called by within
is_degraded() { "$K" --endpoints "$1" status >"$T/stdout" 2>"$T/stderr" && grep -q "^degraded: .*n1 runs and takes no part: .*knows n1" "$T/stdout"; }
for endpoints in "$cluster" "$healthy,127.0.0.1:7101"; do
    say "status at $endpoints"
    within 20 is_degraded "$endpoints" || fail "$(cat "$T/stdout" "$T/stderr")"
    if grep -q "n1 is silent" "$T/stdout"; then fail "it is not silent: $(cat "$T/stdout")"; fi
    expect 0 "$K" --endpoints "$endpoints" status -o json
    grep -q '"verdict":"degraded"' "$T/stdout" || fail "$(cat "$T/stdout")"

    say "endpoint hash there compares the two healthy"
    expect 5 "$K" --endpoints "$endpoints" endpoint hash -o json
    said "n1 takes no part in the cluster and is not compared"
    if grep -q "nothing is compared" "$T/stderr"; then fail "$(cat "$T/stderr")"; fi
done
"$K" --endpoints "$cluster" status >/dev/null 2>"$T/stderr"
said "n1 knows no leader and is passed over"

say "one that is stopped is silent again"
stop n1
# shellcheck disable=SC2329,SC2317 # called by within
is_silent() { "$K" --endpoints "$cluster" status >"$T/stdout" 2>"$T/stderr" && grep -q "^degraded: n1 is silent; n[23] leads 3 members" "$T/stdout"; }
within 20 is_silent || fail "$(cat "$T/stdout" "$T/stderr")"

say "without a majority nobody leads, wherever one asks"
stop n2
# shellcheck disable=SC2329,SC2317 # called by within
has_none() { ! "$K" --endpoints 127.0.0.1:7102,127.0.0.1:7103 status >"$T/stdout" 2>&1 && grep -q "^unhealthy: n3 knows no leader" "$T/stdout"; }
within 20 has_none || fail "$(cat "$T/stdout")"
stop n3
