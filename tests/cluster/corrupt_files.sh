#!/usr/bin/env bash
# Flipped bytes in the log (S2, S3): `log verify` says file and offset and ends with 7; a node that
# is alone refuses to serve them, and a clean copy of the directory still works.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
start_alone n1
export KVCTL_ENDPOINTS=127.0.0.1:7101
await_leader "$KVCTL_ENDPOINTS"
for i in $(seq -w 200); do echo "{\"key\":\"key/$i\",\"value\":\"needle-$i-$(printf 'x%.0s' $(seq 200))\"}"; done >"$T/lines"
"$K" import "$T/lines" >/dev/null
stop n1
unset KVCTL_ENDPOINTS
cp -a "$T/n1" "$T/clean"
expect 0 "$K" log verify --dir "$T/clean"
same "$("$K" log dump --dir "$T/clean" | grep -c $'\tput\tkey/')" 200 "puts in the dump"

# flip FILE OFFSET: one bit.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
fresh() {
    rm -rf "$T/bad"
    cp -a "$T/clean" "$T/bad"
}
segment=$(cd "$T/clean" && grep -l needle-100 data/*.seg | head -n 1)
[[ -n $segment ]] || fail "no segment holds the value"

say "a bit in the middle of what was acknowledged"
fresh
offset=$(grep -abo needle-100 "$T/bad/$segment" | head -n 1 | cut -d: -f1)
flip "$T/bad/$segment" "$offset"
cp "$T/bad/$segment" "$T/before"
expect 7 "$K" log verify --dir "$T/bad"
grep -q "^$segment: record at offset [0-9]*: " "$T/stdout" || fail "no file and offset: $(cat "$T/stdout")"
found=$(sed -n 's/.*offset \([0-9]*\):.*/\1/p' "$T/stdout" | head -n 1)
[[ $found -le $offset && $((offset - found)) -lt 400 ]] || fail "offset $found is not where $offset was flipped"
cmp "$T/before" "$T/bad/$segment" || fail "verify changed the file"
expect 7 "$K" log verify --dir "$T/bad" -o json
grep -q '"kind":"damaged"' "$T/stdout" || fail "no finding as JSON: $(cat "$T/stdout")"

say "a node that is alone refuses it with file and offset, and changes nothing"
expect 7 timeout 10 "$K" serve --id n1 --dir "$T/bad" --listen 127.0.0.1:7109 --moved on
said "${segment#data/}"
said "$found"
cmp "$T/before" "$T/bad/$segment" || fail "the refused start changed the file"
expect 7 "$K" --dir "$T/bad" get key/100

say "the header of a segment"
fresh
flip "$T/bad/$segment" 20
expect 7 "$K" log verify --dir "$T/bad"

say "a segment that is gone"
fresh
rm "$T/bad/$segment"
expect 7 "$K" log verify --dir "$T/bad"

say "a segment of other bytes"
fresh
head -c "$(stat -c %s "$T/bad/$segment")" /dev/urandom >"$T/noise"
cp "$T/noise" "$T/bad/$segment"
expect 7 "$K" log verify --dir "$T/bad"
expect 7 timeout 10 "$K" serve --id n1 --dir "$T/bad" --listen 127.0.0.1:7109 --moved on

say "the clean copy still works"
expect 0 "$K" --dir "$T/clean" count --prefix key/
same "$(cat "$T/stdout")" 200
