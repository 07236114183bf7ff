#!/usr/bin/env bash
# What a member's disk loses comes back from the others (rule 11; S2, S3, S4, S6, S25), with real processes:
# flipped bits in old segments and in the acknowledged tail, a zeroed header, lost files, a rotten image.
# What has no copy anywhere is not invented (S26), and a node that is alone refuses and changes nothing.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
export KVCTL_ENDPOINTS=$cluster
written=0

# flip FILE OFFSET: one bit.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
zero() { dd if=/dev/zero of="$1" bs=1 seek="$2" count="$3" conv=notrunc status=none; }

# write_some COUNT: keys of 1 KiB, whose values name them.
write_some() {
    local i
    for ((i = written + 1; i <= written + $1; i++)); do
        printf '{"key":"key/%06d","value":"needle-%06d-%01000d"}\n' "$i" "$i" 0
    done >"$T/lines"
    "$K" import "$T/lines" >/dev/null
    written=$((written + $1))
}
# where DIR NUMBER: file and offset of the value of that key in the log.
where() {
    local file
    file=$(grep -l "needle-$(printf %06d "$2")" "$1"/data/*.seg | head -n 1)
    [[ -n $file ]] || fail "no segment of $1 holds needle $2"
    echo "$file $(grep -abo "needle-$(printf %06d "$2")" "$file" | head -n 1 | cut -d: -f1)"
}
segments() { find "$T/$1/data" -name '*.seg' | sort; }

status_of() { "$K" --endpoints "127.0.0.1:$(port "$1")" --timeout 2s status -o json 2>/dev/null; }
# The node serves, and lacks nothing.
is_whole() {
    status_of "$1" >"$T/status" || true
    [[ $(field damaged_entries <"$T/status") == 0 ]] && grep -q '"state":"ok"' "$T/status"
}
a_follower() {
    local id led
    led=$(leader)
    for id in n1 n2 n3; do [[ $id == "$led" ]] || echo "$id"; done | head -n 1
}

# repaired ID: it starts, becomes whole, equals the others, and its files say so too.
repaired() {
    start "$1"  "${options[@]}"
    within 30 is_whole "$1" || fail "$1 is not repaired: $(cat "$T/status")"
    check_agreement
    same "$("$K" --endpoints "127.0.0.1:$(port "$1")" count --prefix key/)" "$written" "keys of $1"
    stop "$1"
    expect 0 "$K" log verify --dir "$T/$1"
    start "$1" "${options[@]}"
    await_leader
}

declare -a options=(--segment_bytes 1MiB --image_log_bytes 1GiB --trace info)
for id in n1 n2 n3; do start "$id" "${options[@]}"; done
await_leader
write_some 3500
victim=$(a_follower)
[[ $(segments "$victim" | wc -l) -ge 3 ]] || fail "too few segments: $(segments "$victim")"

say "bits in old segments (S3)"
stop "$victim"
for number in 5 6 7 900 1700; do
    read -r file offset < <(where "$T/$victim" "$number")
    flip "$file" "$offset"
done
expect 7 "$K" log verify --dir "$T/$victim"
: >"$T/$victim.err"
repaired "$victim"
grep '"event":"damaged"' "$T/$victim.err" | grep -q "${file##*/}:" || fail "the file of entry 1700 is not named: $(cat "$T/$victim.err")"

say "a bit in the last acknowledged record (S2)"
stop "$victim"
read -r file offset < <(where "$T/$victim" "$written")
flip "$file" "$offset"
expect 7 "$K" log verify --dir "$T/$victim"
repaired "$victim"
write_some 10

say "sectors of zeros in what was acknowledged (S4, S6)"
stop "$victim"
read -r file offset < <(where "$T/$victim" 2000)
zero "$file" $((offset / 4096 * 4096)) 16384
repaired "$victim"

say "a segment that is gone"
stop "$victim"
rm "$(segments "$victim" | sed -n 2p)"
repaired "$victim"

say "the header of an old segment"
stop "$victim"
zero "$(segments "$victim" | sed -n 2p)" 0 512
repaired "$victim"

say "the newest segment is gone: nobody knows how long that log was"
stop "$victim"
rm "$(segments "$victim" | tail -n 1)"
repaired "$victim"
grep -q '"event":"end-settled"' "$T/$victim.err" || fail "its end was never confirmed"
write_some 10

say "all three have lost something else (S25)"
for id in n1 n2 n3; do stop "$id"; done
number=100
for id in n1 n2 n3; do
    for i in 0 1 2; do
        read -r file offset < <(where "$T/$id" $((number + i)))
        flip "$file" "$offset"
    done
    number=$((number + 700))
done
for id in n1 n2 n3; do start "$id" "${options[@]}"; done
for id in n1 n2 n3; do within 30 is_whole "$id" || fail "$id is not repaired: $(cat "$T/status")"; done
check_agreement
same "$("$K" count --prefix key/)" "$written" "keys"

say "the same entry on all three (S26): no copy, so nobody goes on, and nothing is invented"
declare -A flipped=()
for id in n1 n2 n3; do stop "$id"; done
for id in n1 n2 n3; do
    read -r file offset < <(where "$T/$id" 50)
    flip "$file" "$offset"
    flipped[$id]="$file $offset"
done
for id in n1 n2 n3; do start "$id" "${options[@]}"; done
# shellcheck disable=SC2329,SC2317 # called by within
all_ended() {
    local id
    for id in n1 n2 n3; do ! kill -0 "${pid[$id]}" 2>/dev/null || return 1; done
}
within 30 all_ended || fail "a node goes on without entry 50"
for id in n1 n2 n3; do
    status=0
    wait "${pid[$id]}" || status=$?
    unset "pid[$id]"
    same "$status" 7 "$id ended with"
    read -r file offset <<<"${flipped[$id]}"
    grep '"event":"stopped"' "$T/$id.err" | grep -q "One member that can read it again.*; the first gap here is at data/${file##*/}:[0-9]" ||
        fail "$id does not say why, where and what helps: $(grep '"event":"stopped"' "$T/$id.err")"
done
say "$(grep '"event":"stopped"' "$T/n1.err" | tail -n 1)"
read -r file offset <<<"${flipped[n2]}" # one good copy is enough
flip "$file" "$offset"
for id in n1 n2 n3; do start "$id" "${options[@]}"; done
for id in n1 n2 n3; do within 30 is_whole "$id" || fail "$id is not repaired: $(cat "$T/status")"; done
check_agreement
for id in n1 n2 n3; do stop "$id"; done

say "an image that rotted, and one that is gone"
options=(--segment_bytes 1MiB --image_log_bytes 1MiB --keep_entries 10 --trace info)
for id in n1 n2 n3; do start "$id" "${options[@]}"; done
await_leader
write_some 2500
check_agreement
victim=$(a_follower)
stop "$victim"
image=$(find "$T/$victim/image" -name '*.img' | sort | tail -n 1)
[[ -n $image ]] || fail "$victim has no image"
flip "$image" $(($(stat -c %s "$image") / 2))
repaired "$victim"
write_some 10
stop "$victim"
rm "$T/$victim"/image/*.img
repaired "$victim"
for id in n1 n2 n3; do stop "$id"; done

say "a node that is alone refuses, says where, and changes nothing"
unset KVCTL_ENDPOINTS
start_alone n4 --segment_bytes 1MiB
KVCTL_ENDPOINTS=127.0.0.1:7104 "$K" import "$T/lines" >/dev/null
stop n4
read -r file offset < <(where "$T/n4" $((written - 5)))
flip "$file" "$offset"
cp -a "$T/n4/data" "$T/before"
expect 7 timeout 20 "$K" serve --id n4 --dir "$T/n4" --listen 127.0.0.1:7104
said "$(basename "$file")"
diff -r "$T/before" "$T/n4/data" || fail "the refused start changed its files"
