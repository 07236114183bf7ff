#!/usr/bin/env bash
# The exit code and the channel of every kind of answer (X-G1, X-G3, X-G5, N6).
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

start_alone n1
export KVCTL_ENDPOINTS=127.0.0.1:7101
await_leader "$KVCTL_ENDPOINTS"
K=$KVCTL

say "X-G1: no such key is 1 and silent, nobody there is 2 in time"
expect 1 "$K" get nosuch
same "$(cat "$T/stdout" "$T/stderr")" "" "get nosuch said"
echo '{"key":"a","value":"b"}' >"$T/line"
for command in "get a" "put a b" "del a" "count" "status" "endpoint hash" "import $T/line"; do
    begun=$(now_ms)
    # shellcheck disable=SC2086 # words
    expect 2 "$K" --endpoints 127.0.0.1:7199 --timeout 1s $command
    [[ $(($(now_ms) - begun)) -le 1500 ]] || fail "took $(($(now_ms) - begun)) ms of 1 s: $command"
done
expect 2 "$K" --endpoints 127.0.0.1:7199 --timeout 1s put a b -o json
grep -q '"code":"LKV_EUNREACHABLE".*"outcome":"not_done","retryable":true' "$T/stderr" || fail "no JSON error"
same "$(cat "$T/stdout")" "" "stdout"

say "put, get, count, del"
expect 0 "$K" put a 1
grep -qx 'OK rev=[0-9]*' "$T/stdout" || fail "put answered $(cat "$T/stdout")"
expect 0 "$K" get a
same "$(cat "$T/stdout")" 1
expect 0 "$K" get a -o json
grep -qx '{"key":"a","value":"1","create_rev":"[0-9]*","mod_rev":"[0-9]*","version":"1","lease":"0","read_rev":"[0-9]*"}' "$T/stdout" ||
    fail "get -o json answered $(cat "$T/stdout")"
expect 0 "$K" put -- b -5
expect 0 "$K" get b -o raw
same "$(cat "$T/stdout")" -5
expect 0 "$K" count
same "$(cat "$T/stdout")" 2
expect 0 "$K" get --prefix '' --limit 1
said "# more: next --after 'a' (2 total)"
expect 0 "$K" del nosuch
grep -q 'deleted=0' "$T/stdout" || fail "del nosuch answered $(cat "$T/stdout")"

say "X-G5: deleting is safe"
expect 3 "$K" del a b
expect 3 "$K" del --prefix ''
expect 3 "$K" del --range '' ''
expect 3 "$K" del --all --prefix a
expect 3 "$K" del
expect 0 "$K" del --prefix '' --all --dry-run
same "$("$K" count)" 2 "count"

say "X-G3: any bytes in by stdin are the bytes out"
head -c 100000 /dev/urandom >"$T/random"
"$K" put big - <"$T/random" >/dev/null
"$K" get big -o raw | cmp - "$T/random" || fail "bytes differ"
"$K" put file "@$T/random" >/dev/null
"$K" get file -o raw | cmp - "$T/random" || fail "bytes differ"
: >"$T/empty"
"$K" put empty - <"$T/empty" >/dev/null
same "$("$K" get empty -o raw | wc -c)" 0 "bytes of the empty value"

say "N6: limits of keys and values"
key=$(printf 'k%.0s' $(seq 8192))
expect 0 "$K" put "$key" limit
same "$("$K" get "$key")" limit
expect 4 "$K" put "${key}k" over
said "put kkkk.*k[.][.][.] (8193 bytes): the key has 8193 bytes, key_bytes_max is 8192"
[[ $(wc -c <"$T/stderr") -lt 300 ]] || fail "a message of $(wc -c <"$T/stderr") bytes"
expect 4 "$K" get "${key}k"
said "8193 bytes, key_bytes_max is 8192"
expect 4 "$K" del "${key}k"
said "8193 bytes, key_bytes_max is 8192"
expect 3 "$K" put '' empty
head -c 4194304 /dev/zero >"$T/limit"
expect 0 "$K" put huge "@$T/limit"
"$K" get huge -o raw | cmp - "$T/limit" || fail "the largest value differs"
echo >>"$T/limit"
expect 4 "$K" put huge "@$T/limit"
said "the value has 4194305 bytes, value_bytes_max is 4194304"

say "usage is 3"
expect 3 "$K"
expect 3 "$K" gett a
said "did you mean 'get'"
expect 3 "$K" get
expect 3 "$K" get a b
expect 3 "$K" get a --nosuch
expect 3 "$K" get a --timeout soon
expect 3 "$K" get a -o xml
expect 3 "$K" get --prefix a --limit many
expect 3 "$K" put a
expect 3 "$K" put a "@$T/nosuch"
expect 3 "$K" put -x zz 00
expect 3 "$K" import "$T/nosuch"
expect 3 "$K" --dir "$T/nosuch" get a
expect 3 "$K" --dir "$T/n1" --endpoints 127.0.0.1:7101 get a
expect 3 "$K" get -x $'z\e[31m\001'
said "not 'z.x1b.31m.x01'"
expect 3 "$K" $'gett\e[31m' a
! grep -q $'\e' "$T/stderr" || fail "a control character reached the terminal"
for command in "del a" "del --all" "del --prefix p"; do
    # shellcheck disable=SC2086 # words
    expect 3 "$K" --dir "$T/nosuch" $command
done
[[ ! -e $T/nosuch ]] || fail "deleting made a store"
expect 3 "$K" log dump
expect 3 "$K" log verify --dir "$T/nosuch"
expect 3 "$K" bench put --clients 0
expect 0 "$K" --help
expect 0 "$K" version

say "every command has a help with an example"
"$K" help | sed -n 's/^  \([a-z][a-z ]*[a-z]\)  .*/\1/p' | while read -r command; do
    # shellcheck disable=SC2086 # words
    "$K" $command --help >"$T/help"
    grep -q "^  kvctl" "$T/help" || { [[ $command == [0-9]* ]] || fail "no example in the help of $command"; }
done

say "a group of commands has a help of its own"
for group in bench log endpoint; do
    expect 0 "$K" $group --help
    grep -q "^  $group " "$T/stdout" || fail "help of $group: $(cat "$T/stdout")"
    expect 3 "$K" $group
    said "$group"
done
expect 3 "$K" nosuch --help

say "a node of the other model says which it is, and what to do"
expect 3 "$K" log span
said "model kv.*model=log"
expect 3 "$K" read 0
said "model kv.*model=log"
expect 3 "$K" append text
said "model kv.*model=log"

say "an answer that cannot be written is no success"
if [[ -w /dev/full ]]; then
    got=0
    "$K" get a >/dev/full 2>/dev/null || got=$?
    same "$got" 4 "get into a full device ended with"
fi

expect 3 "$K" help lease nope
said "lease nope"

say "input without an end"
expect 4 timeout 20 "$K" put a @/dev/zero
said "more than 15728640 bytes"
expect 4 timeout 20 bash -c "'$K' put a - </dev/zero"
expect 4 timeout 20 bash -c "'$K' txn </dev/zero"
said "more than 67108864 bytes"

say "flag beats environment beats file"
printf 'endpoints = 127.0.0.1:7199\ntimeout=1s\n' >"$T/config"
expect 0 "$K" --config "$T/config" get a
KVCTL_ENDPOINTS='' expect 2 env -u KVCTL_ENDPOINTS "$K" --config "$T/config" get a
KVCTL_CONFIG=$T/config expect 0 "$K" --endpoints 127.0.0.1:7101 get a
echo 'nonsense=1' >"$T/config"
expect 3 "$K" --config "$T/config" get a
said "config:1"
expect 3 "$K" --config / get a
said "neither a file nor a pipe"
expect 3 timeout 5 "$K" --config /dev/zero get a
said "neither a file nor a pipe"
head -c 1048577 /dev/zero | tr '\0' '#' >"$T/config"
expect 3 "$K" --config "$T/config" get a
said "larger than 1048576 bytes"
expect 0 "$K" --config <(printf 'endpoints=127.0.0.1:7101') get a

say "a directory that is served is reached through its process"
unset KVCTL_ENDPOINTS
expect 0 "$K" --dir "$T/n1" get a
same "$(cat "$T/stdout")" 1
stop n1
expect 0 "$K" --dir "$T/n1" get a
same "$(cat "$T/stdout")" 1
expect 0 "$K" log verify --dir "$T/n1"
