#!/usr/bin/env bash
# What status says while a disk is full or hangs: whether writes go on, whose disk it is, what to do.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
small=(--segment_bytes 1MiB --image_log_bytes 1GiB)
mkdir "$T/small" "$T/slow"
if [[ $EUID -ne 0 ]] || ! mount -t tmpfs -o size=64m tmpfs "$T/small" 2>/dev/null; then
    skip "needs root and mount"
    exit 0
fi
mounts+=("$T/small")
head -c 100000 /dev/urandom >"$T/value"

# fill ENDPOINTS: writes until the first refusal, or 200 of them.
fill() {
    local i
    for i in $(seq 200); do
        "$K" --endpoints "$1" --timeout 3s put "big/$i" "@$T/value" >/dev/null 2>&1 || return 0
    done
}
# status_is EXIT WORD WHY: of the cluster; the report is in $T/stdout.
status_is() {
    local got=0
    "$K" --endpoints "${at:-$cluster}" status >"$T/stdout" 2>"$T/stderr" || got=$?
    [[ $got -eq $1 ]] && grep -q "^$2: .*$3" "$T/stdout"
}
await_status() { within 20 status_is "$@" || { cat "$T/stdout" "$T/stderr" >&2; fail "status is not $*"; }; }

# n3 is no leader: what is looked at is a follower's disk.
n3_follows() {
    await_leader
    while [[ $(leader) == n3 ]]; do
        stop n3 # hands over
        start n3 "${small[@]}"
        await_leader
    done
}

say "alone on a full disk: no write can succeed"
head -c 50m /dev/zero >"$T/small/ballast"
start_process n4 "$K" serve --id n4 --dir "$T/small/n4" --listen 127.0.0.1:7104 "${small[@]}"
at=127.0.0.1:7104
await_status 0 healthy n4
fill "$at"
await_status 5 unhealthy "n4: disk full"
grep -q "make room" "$T/stdout" || fail "no advice in: $(cat "$T/stdout")"
"$K" --endpoints "$at" status -o json >"$T/json" || true
grep -q '"verdict":"unhealthy".*"members":\[{"id":"n4".*"state":"disk full"' "$T/json" || fail "json: $(cat "$T/json")"
rm "$T/small/ballast"
await_status 0 healthy n4
stop n4
rm -r "$T/small/n4"

say "one of three on a full disk: writes go on"
at=
head -c 50m /dev/zero >"$T/small/ballast"
ln -s "$T/small/n3" "$T/n3"
mkdir "$T/small/n3"
for id in n1 n2 n3; do start "$id" "${small[@]}"; done
n3_follows
for _ in 1 2 3; do
    fill "$cluster"
    status_is 0 degraded "n3: disk full" && break
done
await_status 0 degraded "n3: disk full"
expect 0 "$K" --endpoints "$cluster" put small 1
rm "$T/small/ballast"
await_status 0 healthy leads
for id in n1 n2 n3; do stop "$id"; done

say "one of three on a disk that hangs"
truncate -s 128m "$T/disk"
if mkfs.ext4 -q "$T/disk" 2>/dev/null && mount -o loop "$T/disk" "$T/slow" 2>/dev/null; then
    mounts+=("$T/slow")
    rm "$T/n3"
    cp -r "$T/small/n3" "$T/slow/n3"
    ln -s "$T/slow/n3" "$T/n3"
    for id in n1 n2; do start "$id" "${small[@]}"; done
    start n3 "${small[@]}" --moved on
    n3_follows
    await_status 0 healthy leads
    fsfreeze -f "$T/slow"
    "$K" --endpoints "$cluster" --timeout 10s put during 1 >/dev/null 2>&1 || true
    within 20 status_is 0 degraded "n3: disk hangs" || hung=no
    fsfreeze -u "$T/slow"
    [[ ${hung:-yes} == yes ]] || { cat "$T/stdout" >&2; fail "status does not see the disk that hangs"; }
    await_status 0 healthy leads
    for id in n1 n2 n3; do stop "$id"; done
else
    skip "a disk that hangs: needs mkfs.ext4 and a loop device"
fi
