#!/usr/bin/env bash
# kvctl in log mode: append, read, follow, span, retention with a node that was away, the wrong model.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
K=$KVCTL

say "an embedded log"
for i in 1 2 3; do "$K" --dir "$T/e" append "record $i" >>"$T/indexes"; done
same "$("$K" --dir "$T/e" read 0 --count 10 | cut -f2 | tr '\n' ,)" "record 1,record 2,record 3," "records"
same "$("$K" --dir "$T/e" read "$(sed -n 2p "$T/indexes")")" "$(sed -n 2p "$T/indexes")"$'\t'"record 2" "by index"
head -c 100000 /dev/urandom >"$T/random"
index=$("$K" --dir "$T/e" append - <"$T/random")
"$K" --dir "$T/e" read "$index" -o raw | cmp - "$T/random" || fail "100,000 random bytes differ"
index=$("$K" --dir "$T/e" append "@$T/random")
"$K" --dir "$T/e" read "$index" -o raw | cmp - "$T/random" || fail "a file differs"
same "$(printf '' | "$K" --dir "$T/e" append -o json | field term | grep -c .)" 1 "an empty record has a term"
expect 1 "$K" --dir "$T/e" read 100000
expect 3 "$K" --dir "$T/e" read x
expect 3 "$K" --dir "$T/e" put a b
said 'model log'
"$K" --dir "$T/kv" put a b >/dev/null
expect 3 "$K" --dir "$T/kv" append x
said '"kv".*"log"'
expect 3 "$K" --dir "$T/kv" read 0
"$K" log verify --dir "$T/e" >/dev/null
"$K" log dump --dir "$T/e" -o json >"$T/dump"
grep -q '"type":"record"' "$T/dump" || fail "log dump knows no records"

say "three nodes"
for id in n1 n2 n3; do
    start "$id" --model log --segment_bytes 1MiB --retention_bytes 3MiB --keep_entries 20
done
await_leader
export KVCTL_ENDPOINTS=$cluster
first=$("$K" append 'the first')
for id in n1 n2 n3; do
    same "$("$K" --endpoints "127.0.0.1:$(port "$id")" read "$first")" "$first"$'\t'"the first" "on $id"
done
same "$("$K" log span | sed 's/ .*//')" "first=1" "span"

say "a reader follows"
"$K" read 0 --follow --count 51 >"$T/followed" &
others+=("$!")
reader=$!
seq 1 50 | "$K" append --lines >"$T/lines"
wait "$reader" || fail "the reader ended with $?"
same "$(wc -l <"$T/followed")" 51 "records followed"
cut -f2 "$T/lines" >"$T/a"
tail -n 50 "$T/followed" | cut -f1 | cmp - "$T/a" || fail "followed indices are not the acknowledged ones"

say "a node that was away for longer than the log is kept (L16, rule 14)"
victim=n1
[[ $(leader) != n1 ]] || victim=n2
kill_hard "$victim"
"$K" bench append --count 100 --clients 4 --value-size 131072 >/dev/null
# shellcheck disable=SC2329,SC2317 # called by within
dropped() { [[ $("$K" log span --local -o json | field first) -gt 60 ]]; }
within 20 dropped || fail "retention dropped nothing: $("$K" log span)"
expect 4 "$K" read 1
said 'gone'
start "$victim"
last=$("$K" append 'after it')
own="127.0.0.1:$(port "$victim")"
# shellcheck disable=SC2329,SC2317
caught_up() { [[ $("$K" --endpoints "$own" log span --local -o json | field commit) -ge $last ]]; }
within 20 caught_up || fail "$victim did not catch up"
[[ $("$K" --endpoints "$own" log span -o json | field first) -gt 1 ]] || fail "it begins at 1"
same "$("$K" --endpoints "$own" read "$last")" "$last"$'\t'"after it" "read from it"
# Each node drops what it need not keep when it comes to it: compared is what all three have.
# shellcheck disable=SC2329,SC2317
read_common() {
    local id first begin=0
    for id in n1 n2 n3; do
        first=$("$K" --endpoints "127.0.0.1:$(port "$id")" log span -o json | field first)
        [[ $first -le $begin ]] || begin=$first
    done
    for id in n1 n2 n3; do
        "$K" --endpoints "127.0.0.1:$(port "$id")" read "$begin" --count 100000 >"$T/$id.all" || return 1
    done
}
within 20 read_common || fail "the nodes keep no common records"
cmp "$T/n1.all" "$T/n2.all" || fail "n1 and n2 differ"
cmp "$T/n1.all" "$T/n3.all" || fail "n1 and n3 differ"
[[ $(wc -l <"$T/n1.all") -ge 20 ]] || fail "only $(wc -l <"$T/n1.all") records are kept everywhere"

say "the wrong model is refused with both values (X-E5)"
stop n3
expect 3 "$K" serve --id n3 --dir "$T/n3" --listen 127.0.0.1:7103 --peers "$peers" --model kv
said '"log".*"kv"'
start n3
await_leader
for id in n1 n2 n3; do stop "$id"; done
