#!/usr/bin/env bash
# SIGTERM hands leadership over: under load each node is stopped and started again in turn, no write
# fails for good, and each ends with 0. A node that returns is caught up, whole or far behind.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for id in n1 n2 n3; do start "$id"; done
await_leader
writer load 8
for id in n1 n2 n3; do
    sleep 1
    stop "$id"
    sleep 0.3
    start "$id"
    await_leader
done
leads=$(leader)
sleep 0.5
stop "$leads"
await_leader
start "$leads"
stop_writers
check_acknowledged
check_agreement

say "all three stopped and started again: everything is there"
for id in n1 n2 n3; do stop "$id"; done
for id in n1 n2 n3; do start "$id"; done
await_leader
check_acknowledged
check_agreement

say "S17: the directory of one member does not serve as another"
stop n3
expect 3 timeout 10 "$KVCTL" serve --id n2 --dir "$T/n3" --listen 127.0.0.1:7103 --peers "$peers"

say "a member that is not running: its directory is read, with a warning, and not written"
expect 0 "$KVCTL" --dir "$T/n3" count --prefix load/
said "belongs to a member of a cluster of 3"
[[ $(cat "$T/stdout") -ge $(wc -l <"$T/acks") ]] || fail "$(cat "$T/stdout") keys on a disk that had all of them"
expect 3 "$KVCTL" --dir "$T/n3" put load/x 1
expect 5 "$KVCTL" --dir "$T/n3" status
for id in n1 n2; do stop "$id"; done
