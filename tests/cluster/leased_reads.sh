#!/usr/bin/env bash
# Leased reads at real processes (rule 30): a leader that was stopped, and goes on when others have led and written,
# shows nothing old, although it had a lease when it stopped (T4). Restarts and a hand-over leave no gap either.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

lease_ms() { "$KVCTL" --endpoints "127.0.0.1:$(port "$1")" --timeout 2s status -o json | field read_lease_ms; }
has_lease() { [[ $(lease_ms "$(leader)") -gt 0 ]]; }
ctl() { "$KVCTL" --endpoints "$cluster" --timeout 10s "$@"; }
# What is unknown is written again: it is the same value.
written() { "$KVCTL" --endpoints "$1" --timeout 3s put k "$2" >/dev/null 2>"$T/why"; }
at() { "$KVCTL" --endpoints "127.0.0.1:$(port "$1")" --timeout 10s "${@:2}"; }

for id in n1 n2 n3; do start "$id" --lease_reads on; done
await_leader
ctl put k 0 >/dev/null
within 20 has_lease || fail "the leader has no lease: $(lease_ms "$(leader)") ms"
for id in n1 n2 n3; do same "$(at "$id" get k --leased)" 0 "$id shows"; done
same "$(ctl count --leased)" 1 "keys:"

for value in 1 2 3; do
    old=$(leader)
    say "$old is stopped with a lease of $(lease_ms "$old") ms"
    rest=
    for id in n1 n2 n3; do [[ $id == "$old" ]] || rest+=${rest:+,}127.0.0.1:$(port "$id"); done
    kill -STOP "${pid[$old]}"
    within 20 written "$rest" "$value" || fail "no write without $old: $(cat "$T/why")"
    # Asked while it stands still, so that this is the first thing that it looks at.
    at "$old" get k --leased >"$T/shown" 2>"$T/why" &
    asked=$!
    others+=("$asked")
    sleep 0.2
    kill -CONT "${pid[$old]}"
    if wait "$asked"; then
        same "$(cat "$T/shown")" "$value" "$old shows"
    else
        say "it had no answer: $(cat "$T/why")"
    fi
    within 20 has_lease || fail "the new leader has no lease"
    same "$(ctl get k --leased)" "$value" "the others show"
done

say "members restart, one after the other"
for id in n1 n2 n3; do
    kill_hard "$id"
    start "$id" --lease_reads on
    await_leader
    ctl put k "after $id" >/dev/null
    for other in n1 n2 n3; do same "$(at "$other" get k --leased)" "after $id" "$other shows"; done
done
check_agreement
for id in n1 n2 n3; do stop "$id"; done
