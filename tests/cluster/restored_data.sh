#!/usr/bin/env bash
# Rules 11 and 17: an older copy of a node's data is put back, without its identity, so that the place
# of the identity tells nothing. A member does not lead without what it had acknowledged, and gets it
# back; a node that is alone is refused, until its operator takes the loss.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export KVCTL_ENDPOINTS=$cluster
keys() { "$KVCTL" --endpoints "$1" count --prefix "$2"; }
# load ENDPOINTS NAME COUNT
load() {
    local i
    for ((i = 0; i < $3; i++)); do printf '{"key":"%s/%04d","value":"%d"}\n' "$2" "$i" "$i"; done >"$T/lines"
    "$KVCTL" --endpoints "$1" import "$T/lines" >/dev/null
}
says() { grep -q "$2" "$T/$1.err"; }
# The leader answers for all members, and it is the one that says who does not take part.
all_take_part() { "$KVCTL" --endpoints "$cluster" status -o json >"$T/status" && ! grep -q 'end unknown' "$T/status"; }
has_all() { [[ $(keys "$cluster" new/ 2>/dev/null) == 300 ]]; }

for kind in TERM KILL; do
    say "a member's older data, with the member that knows better away (SIG$kind)"
    rm -rf "$T"/n?
    for id in n1 n2 n3; do start "$id"; done
    await_leader
    load "$cluster" old 100
    for id in n1 n2 n3; do stop "$id"; done
    cp -a "$T/n1/data" "$T/data.old"
    cp -a "$T/n1/image" "$T/image.old"
    start n1
    start n3
    await_leader
    load "$cluster" new 300
    for id in n1 n3; do
        if [[ $kind == TERM ]]; then stop "$id"; else kill_hard "$id"; fi
    done
    rm -rf "$T/n1/data" "$T/n1/image"
    mv "$T/data.old" "$T/n1/data"
    mv "$T/image.old" "$T/n1/image"
    : >"$T/n1.err"
    start n1
    start n2
    says n1 "data-put-back" || fail "n1 does not say that its data is old"
    expect 5 "$KVCTL" --timeout 2s put without/n3 1 # nobody may lead
    start n3
    await_leader
    within 20 has_all || fail "$(keys "$cluster" new/) of 300 acknowledged keys are left"
    check_agreement
    expect 0 "$KVCTL" --timeout 10s put with/n3 1
    within 20 all_take_part || fail "n1 has everything and does not take part"
    kill_hard n3
    within 20 has_all || fail "without n3, $(keys "$cluster" new/) of 300 keys are left"
    for id in n1 n2; do stop "$id"; done
done

say "alone, it is refused, and the operator may take the loss"
rm -rf "$T"/n?
lone=127.0.0.1:7101
start_alone n1
load "$lone" old 100
stop n1
cp -a "$T/n1/data" "$T/data.old"
cp -a "$T/n1/image" "$T/image.old"
start_alone n1
load "$lone" new 100
stop n1
rm -rf "$T/n1/data" "$T/n1/image"
mv "$T/data.old" "$T/n1/data"
mv "$T/image.old" "$T/n1/image"
expect 3 "$KVCTL" serve --id n1 --dir "$T/n1" --listen "$lone"
said "put back from a copy"
start_alone n1 --moved on
same "$(keys "$lone" old/)" 100 "old keys"
stop n1
start_alone n1
same "$(keys "$lone" old/)" 100 "old keys"
stop n1
