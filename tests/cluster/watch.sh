#!/usr/bin/env bash
# kvctl watch: every change once and in order while leaders are killed (C8), a command for each, and what has been
# compacted (C7).
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for id in n1 n2 n3; do start "$id"; done
await_leader
ctl() { "$KVCTL" --endpoints "$cluster" "$@"; }

ctl put w/0 0 >/dev/null
ctl watch --prefix w/ --since 2 --count 40 -o json >"$T/events" &
watcher=$!
others+=("$watcher")
for ((i = 1; i < 40; i++)); do
    ctl --timeout 20s put w/$((i % 4)) "$i" >/dev/null || true # one that is unknown is told, or not, by the watch
    if ((i == 15)); then
        leads=$(leader)
        kill_hard "$leads"
        start "$leads"
        await_leader
    fi
done
ctl --timeout 20s put w/9 last >/dev/null
wait "$watcher" || fail "the watch ended with $?"
same "$(wc -l <"$T/events")" 40 "events"
field rev <"$T/events" | sort -n -c || fail "not in order"
same "$(field rev <"$T/events" | paste -sd' ')" "$(seq 2 41 | paste -sd' ')" "revisions:"

# shellcheck disable=SC2016 # the command's own variables
ctl watch w/9 --since 2 --count 1 -- sh -c 'echo "$KVCTL_EVENT_TYPE $KVCTL_KEY $(cat)"' >"$T/ran"
same "$(cat "$T/ran")" "PUT w/9 last" "the command got"

ctl compact 30 >/dev/null
sleep 1 # until the followers have heard of it
expect 4 ctl watch w/9 --since 29 --count 1
said "30 to"
expect 3 ctl watch --prefix
expect 2 "$KVCTL" --endpoints 127.0.0.1:7199 --timeout 1s watch w/9
expect 0 ctl --timeout 500ms watch w/9
expect 1 ctl --timeout 500ms watch w/9 --count 1
for id in n1 n2 n3; do stop "$id"; done
