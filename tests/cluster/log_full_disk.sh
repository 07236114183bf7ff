#!/usr/bin/env bash
# X-C1, rule 15 in log mode: with no room at all on their disks, retention lets old records go and appends go on.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
if [[ $EUID -ne 0 ]]; then
    skip "needs root and mount"
    exit 0
fi
for id in n1 n2 n3; do
    mkdir "$T/$id"
    mount -t tmpfs -o size=24m tmpfs "$T/$id" 2>/dev/null || { skip "needs mount"; exit 0; }
    mounts+=("$T/$id")
done
export KVCTL_ENDPOINTS=$cluster
for id in n1 n2 n3; do
    start "$id" --model log --segment_bytes 1MiB --retention_bytes 2MiB --keep_entries 10
done
await_leader
line=$(head -c 4000 /dev/zero | tr '\0' x)
# append_some COUNT: exit code 0 when all of them are in the log.
append_some() { awk -v n="$1" -v l="$line" 'BEGIN { while (n-- > 0) print l }' | "$K" --timeout 20s append --lines >"$T/acks" 2>"$T/stderr"; }
kept_on() { "$K" --endpoints "127.0.0.1:$(port "$1")" log span -o json | field first; }

append_some 450 || fail "appends fail: $(cat "$T/stderr")"
sleep 3 # the next segment and the file of the next image are there
say "no room is left"
for id in n1 n2 n3; do
    dd if=/dev/zero of="$T/$id/ballast" bs=4096 2>/dev/null && fail "the disk of $id takes everything"
    same "$(df --output=avail -B1 "$T/$id" | tail -n 1 | tr -d ' ')" 0 "bytes left on the disk of $id:"
done
last=$(kept_on n1)
for i in 1 2 3 4; do
    within 20 append_some 1000 || fail "round $i: $(cat "$T/stderr"); $("$K" status 2>&1)"
    same "$(wc -l <"$T/acks")" 1000 "answers"
    sleep 2
    first=$(kept_on n1)
    [[ $first -gt $last ]] || fail "round $i: nothing has gone, the log begins at $first"
    last=$first
done
for id in n1 n2 n3; do rm "$T/$id/ballast"; done
for id in n1 n2 n3; do stop "$id"; done
