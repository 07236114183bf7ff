#!/usr/bin/env bash
# Flipped bytes in the log, the vote and images (S2, S3): `log verify` says file and offset and ends with
# 7; a node that is alone refuses to serve them, and a clean copy of the directory still works.
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

say "one vote slot of two is a warning: the other one has the vote"
fresh
flip "$T/bad/data/vote" 20
expect 0 "$K" log verify --dir "$T/bad"
grep -q '^warning: data/vote:0: one of the two slots' "$T/stdout" || fail "no warning: $(cat "$T/stdout")"
flip "$T/bad/data/vote" 4116
expect 7 "$K" log verify --dir "$T/bad"

# image_of MODEL: a byte of the newest image, and all of it, of a node whose log begins behind it.
image_of() {
    local image offset
    image=$(cd "$T/clean-$1" && find image -name '*.img' | sort | tail -n 1)
    expect 0 "$K" log verify --dir "$T/clean-$1"
    grep -q '^OK .* warnings=0 images=[1-9].* checked=log,vote.*,image' "$T/stdout" || fail "images are not told: $(cat "$T/stdout")"
    for offset in 100 cut; do
        rm -rf "$T/bad"
        cp -a "$T/clean-$1" "$T/bad"
        if [[ $offset == cut ]]; then : >"$T/bad/$image"; else flip "$T/bad/$image" "$offset"; fi
        cp "$T/bad/$image" "$T/before"
        expect 7 "$K" log verify --dir "$T/bad"
        grep -q "^$image:[0-9]*: " "$T/stdout" || fail "no image and offset: $(cat "$T/stdout")"
        expect 7 timeout 10 "$K" serve --dir "$T/bad" --listen 127.0.0.1:7109 --moved on
        said "${image#image/}"
        said "alone, nobody can give it back; no data was changed"
        cmp "$T/before" "$T/bad/$image" || fail "the refused start changed the image"
    done
}
many() { awk 'BEGIN { x = sprintf("%900s", ""); for (i = 1; i <= 8000; i++) printf "{\"key\":\"%d\",\"value\":\"%s\"}\n", i, x }'; }
has_image() { compgen -G "$T/$1/image/*.img" >/dev/null; }

say "an image that cannot be read, model kv"
start_alone n2 --segment_bytes 1MiB --keep_entries 100 --image_log_bytes 1MiB
many >"$T/lines"
"$K" --endpoints 127.0.0.1:7102 import "$T/lines" >/dev/null
within 20 has_image n2 || fail "no image after 20 s"
stop n2
mv "$T/n2" "$T/clean-kv"
image_of kv

say "and model log"
start_alone n3 --model log --segment_bytes 1MiB --keep_entries 100 --retention_bytes 2MiB
sed 's/.*/a record of some length: &/' "$T/lines" | "$K" --endpoints 127.0.0.1:7103 append --lines - >/dev/null
within 20 has_image n3 || fail "no image after 20 s"
stop n3
mv "$T/n3" "$T/clean-log"
image_of log

say "the clean copy still works"
expect 0 "$K" --dir "$T/clean" count --prefix key/
same "$(cat "$T/stdout")" 200
