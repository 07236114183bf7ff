#!/usr/bin/env bash
# Leases at real processes: kept alive at whichever node answers while the leader is stopped and another follows, and
# gone with all their keys when nobody does that any more (C12, X-I5). No time is asserted; the lease outlives a slow election.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for id in n1 n2 n3; do start "$id"; done
await_leader
ctl() { "$KVCTL" --endpoints "$cluster" --timeout 10s "$@"; }

lease=$(ctl lease grant --ttl 8s -o raw)
ctl put /svc/a 1 --lease "$lease"
ctl put /svc/b 2 --lease "$lease"
same "$(ctl lease ttl "$lease" --keys | tail -n +2 | paste -sd' ')" "/svc/a /svc/b" "its keys:"

old=$(leader)
kill -STOP "${pid[$old]}"
for _ in 1 2 3 4; do
    ctl lease keep-alive "$lease" >"$T/kept" || fail "the lease was lost: $(cat "$T/kept")"
    sleep 0.7
done
same "$(ctl count --prefix /svc/)" 2 "keys of a lease that is kept alive:"
kill -CONT "${pid[$old]}"

for _ in $(seq 300); do
    count=$(ctl count --prefix /svc/)
    [[ $count -eq 1 ]] && fail "one of two keys is gone"
    [[ $count -eq 0 ]] && break
    sleep 0.1
done
same "$count" 0 "keys of a lease that nobody keeps alive:"
status=0
ctl lease keep-alive "$lease" 2>"$T/err" || status=$?
same "$status" 1 "keep-alive of a lease that has ended:"
status=0
ctl put /svc/a 1 --lease "$lease" 2>"$T/err" || status=$?
same "$status" 1 "a put with it:"
await_leader
check_agreement
for id in n1 n2 n3; do stop "$id"; done
