#!/usr/bin/env bash
# X-C2, S27: a leader on a full disk hands over to one with room; three full disks leave reads, deletes and compactions;
# with room again everything goes on by itself.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
small=(--segment_bytes 1MiB --image_log_bytes 1GiB)
if [[ $EUID -ne 0 ]]; then
    skip "needs root and mount"
    exit 0
fi
for id in n1 n2 n3; do
    mkdir "$T/$id"
    mount -t tmpfs -o size=24m tmpfs "$T/$id" 2>/dev/null || { skip "needs mount"; exit 0; }
    mounts+=("$T/$id")
done
head -c 60000 /dev/urandom >"$T/value"

# fill_disk ID: leaves about a megabyte; less, when a segment was made meanwhile.
fill_disk() {
    local left
    left=$(df --output=avail -B1 "$T/$1" | tail -n 1)
    [[ $left -le 1100000 ]] || head -c $((left - 1000000)) /dev/zero >"$T/$1/ballast" 2>/dev/null || true
}
put() { "$K" --endpoints "$cluster" --timeout 5s put "$@" >/dev/null 2>"$T/stderr"; }
revision() { "$K" --endpoints "127.0.0.1:$(port "$(leader)")" status -o json | field rev; }
moved() { [[ -n $(leader) && $(leader) != "$first" ]]; }

for id in n1 n2 n3; do start "$id" "${small[@]}"; done
await_leader
put kept 1
first=$(leader)
say "the disk of the leader $first is full"
fill_disk "$first"
for i in $(seq 60); do
    put "big/$i" "@$T/value" || within 10 put "big/$i" "@$T/value" || fail "a put is refused: $(cat "$T/stderr")"
    moved && break
done
within 10 moved || fail "$first still leads"
for i in $(seq 10); do put "after/$i" "@$T/value" || fail "a put is refused: $(cat "$T/stderr")"; done
rm "$T/$first/ballast"
check_agreement

say "all three are full"
for id in n1 n2 n3; do fill_disk "$id"; done
refused=
for i in $(seq 100); do
    if ! put "more/$i" "@$T/value" && put_says=$(cat "$T/stderr") && grep -q "no space left" <<<"$put_says"; then
        refused=$((refused + 1))
        [[ $refused -lt 3 ]] || break
    fi
done
[[ ${refused:-0} -ge 3 ]] || fail "puts are not refused"
expect 0 "$K" --endpoints "$cluster" get kept
for i in $(seq 10); do expect 0 "$K" --endpoints "$cluster" --timeout 5s del "after/$i"; done
expect 1 "$K" --endpoints "$cluster" get after/1
expect 0 "$K" --endpoints "$cluster" --timeout 5s compact 10
# One that cannot write applies nothing new, and goes on showing what it has; so the leader is asked.
compacted() {
    ! "$K" --endpoints "127.0.0.1:$(port "$(leader)")" --timeout 5s get kept --rev 5 >/dev/null 2>"$T/stderr" &&
        grep -q "has been compacted" "$T/stderr"
}
within 10 compacted || fail "revision 5 is still there: $(cat "$T/stderr")"
for id in n1 n2 n3; do rm "$T/$id/ballast"; done
within 10 put again 1 || fail "with room again puts are refused: $(cat "$T/stderr")"
check_agreement

say "all three are full again: deletes and a compaction make room, in their images"
for id in n1 n2 n3; do fill_disk "$id"; done
for i in $(seq 60); do put "yet/$i" "@$T/value" || break; done
for prefix in big/ more/ yet/; do
    expect 0 "$K" --endpoints "$cluster" --timeout 5s del --prefix "$prefix"
done
expect 0 "$K" --endpoints "$cluster" --timeout 5s compact "$(revision)"
within 20 put yet/1 "@$T/value" || fail "after deletes puts are refused: $(cat "$T/stderr")"
check_agreement
for id in n1 n2 n3; do stop "$id"; done
