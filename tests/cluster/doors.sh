#!/usr/bin/env bash
# Bad input at the doors of a node: options, an address or a directory in use, no permission, a full
# disk (X-H1, S9, S15, S16). Each is refused with a code and a text that names what is wrong.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
serve() { expect "$1" timeout 10 "$K" serve --id n9 --listen 127.0.0.1:7109 "${@:2}"; }

say "options"
expect 3 "$K" serve
serve 3 --dir "$T/x" --nosuch-option 1
said "nosuch"
serve 3 --dir "$T/x" --election_ms soon
said "election_ms"
serve 3 --dir "$T/x" --election-ms -1
serve 3 --dir "$T/x" --id 'not/an id'
serve 3 --dir "$T/x" --listen nowhere
serve 3 --dir "$T/x" --listen 127.0.0.1:70000
serve 3 --dir "$T/x" --peers n1
serve 3 --dir "$T/x" --trace loud
[[ ! -e $T/x ]] || fail "a refused start made a directory"
serve 3 --dir "$T/w" --peers n1=127.0.0.1:1,n2=127.0.0.1:2
said "n9"
[[ ! -e $T/w ]] || fail "a start refused for its peers made a directory"
serve 3 --dir "$T/no/parent"
: >"$T/file"
serve 3 --dir "$T/file"

say "S16: a directory in use is refused at once, with the owner's process, and the owner lives on"
start_alone n1
begun=$(now_ms)
serve 3 --dir "$T/n1"
[[ $(($(now_ms) - begun)) -le 1500 ]] || fail "took $(($(now_ms) - begun)) ms"
said "${pid[n1]}"
expect 0 "$K" --endpoints 127.0.0.1:7101 put a 1

say "an address in use"
serve 3 --dir "$T/y" --listen 127.0.0.1:7101
said "7101"
expect 0 "$K" --endpoints 127.0.0.1:7101 get a

say "S15: what SIGKILL leaves behind does not keep a node from starting"
kill_hard n1
start_alone n1
expect 0 "$K" --endpoints 127.0.0.1:7101 get a
same "$(cat "$T/stdout")" 1

say "L14: a single write on an idle cluster is acknowledged"
sleep 2
expect 0 "$K" --endpoints 127.0.0.1:7101 --timeout 2s put idle 1
stop n1

say "no permission"
if [[ $EUID -eq 0 ]] && command -v setpriv >/dev/null; then
    chmod 711 "$T"
    nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    mkdir -m 700 "$T/private"
    if "${nobody[@]}" "$K" version >/dev/null 2>&1; then
        expect 8 timeout 10 "${nobody[@]}" "$K" serve --dir "$T/private/x" --listen 127.0.0.1:7109
        expect 8 timeout 10 "${nobody[@]}" "$K" serve --dir "$T/private" --listen 127.0.0.1:7109
        expect 8 timeout 10 "${nobody[@]}" "$K" --dir "$T/n1" get a
        expect 8 timeout 10 "${nobody[@]}" "$K" log verify --dir "$T/n1"
    else
        skip "another user cannot run $K"
    fi
else
    skip "no permission: needs root and setpriv"
fi

say "S9: a full disk is an explicit answer, reads go on, and space makes it work again"
mkdir "$T/small"
if [[ $EUID -eq 0 ]] && mount -t tmpfs -o size=24m tmpfs "$T/small" 2>/dev/null; then
    mounts+=("$T/small")
    head -c 8m /dev/zero >"$T/small/ballast"
    start_process n2 "$K" serve --id n2 --dir "$T/small/n2" --listen 127.0.0.1:7102 --segment_bytes 1MiB \
        --image_log_bytes 1GiB
    expect 0 "$K" --endpoints 127.0.0.1:7102 put first 1
    head -c 100000 /dev/urandom >"$T/value"
    code=0
    for i in $(seq 400); do
        "$K" --endpoints 127.0.0.1:7102 --timeout 3s put "big/$i" "@$T/value" >"$T/stdout" 2>"$T/stderr" || {
            code=$?
            break
        }
        last=$i
    done
    say "after ${last:-0} values: $code $(cat "$T/stderr")"
    [[ $code -eq 4 || $code -eq 5 || $code -eq 6 ]] || fail "a full disk ended put with $code"
    expect 0 "$K" --endpoints 127.0.0.1:7102 get first --local
    same "$("$K" --endpoints 127.0.0.1:7102 count --local --prefix big/)" "$last" "acknowledged values that are readable"
    rm "$T/small/ballast"
    within 15 "$K" --endpoints 127.0.0.1:7102 --timeout 3s put again 1 >/dev/null 2>&1 ||
        fail "no write although there is space again"
    for i in 1 "$last"; do
        "$K" --endpoints 127.0.0.1:7102 get "big/$i" -o raw | cmp - "$T/value" || fail "big/$i differs"
    done
    stop n2
else
    skip "full disk: needs root and mount"
fi
