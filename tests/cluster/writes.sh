#!/usr/bin/env bash
# kvctl put and del with conditions, add and compact: exit codes, texts and JSON.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
start_alone n1
export KVCTL_ENDPOINTS=127.0.0.1:7101
await_leader "$KVCTL_ENDPOINTS"

say "put"
same "$("$K" put k v1 --if-absent)" "OK rev=2"
expect 1 "$K" put k v2 --if-absent
said 'compare failed: k mod_rev=2, wanted no such key'
expect 1 "$K" put k v2 --if-rev 41
said 'compare failed: k mod_rev=2, wanted 41'
expect 1 "$K" put nosuch v --if-rev 41 -o json
grep -q '"code":"LKV_ECOMPARE".*"outcome":"negative"' "$T/stderr" || fail "no JSON error"
same "$("$K" put k v2 --if-rev 2 --prev | tr '\t\n' '= ')" "OK rev=3 prev k=v1 "
same "$("$K" put k v3 --prev -o json)" \
    '{"outcome":"done","rev":"4","prev":[{"key":"k","value":"v2","mod_rev":"3"}]}'
same "$("$K" put --keep-value k)$("$K" get k)" "OK rev=5v3"
expect 1 "$K" put --keep-value nosuch
expect 3 "$K" put k
expect 3 "$K" put k v --keep-value
expect 3 "$K" put k v --if-rev 0
expect 3 "$K" put k v --if-absent --if-rev 4

say "del"
expect 1 "$K" del k --if-rev 4
said 'compare failed: k mod_rev=5, wanted 4'
same "$("$K" del k --if-rev 5 --prev | tr '\t\n' '= ')" "OK rev=6 deleted=1 prev k=v3 "
"$K" put a 1 >/dev/null && "$K" put b 2 >/dev/null # 7 8
expect 3 "$K" del --range a c --if-rev 7
same "$("$K" del --range a c --prev -o json)" \
    '{"outcome":"done","rev":"9","deleted":"2","prev":[{"key":"a","value":"1","mod_rev":"7"},{"key":"b","value":"2","mod_rev":"8"}]}'

say "add"
same "$("$K" add n)$("$K" add n 41)" 142
same "$("$K" add n --prev -- -50 | tr '\t\n' '= ')" "-8 prev n=42 "
same "$("$K" add n 0 -o json)" '{"outcome":"done","rev":"13","number":"-8"}'
"$K" put text abc >/dev/null # 14
expect 4 "$K" add text
expect 3 "$K" add n 1.5

say "compact"
same "$("$K" compact 10)" "OK rev=14"
expect 4 "$K" compact 10
expect 4 "$K" get k --rev 5
expect 3 "$K" compact 0
say "txn"
same "$(printf 'if mod("text") = 14 # as it was\n   exists(nosuch) = 0\nthen put k2 "x\\n"\n     add n 8\n     del-range a c\n     range k l\nelse get text\n' | "$K" txn)" \
    $'COMMITTED rev=15\nthen[0] OK\nthen[1] OK 0\nthen[2] OK deleted=0\nthen[3] k2\tx\\n'
expect 1 "$K" txn $'if value(text) = "other"\nthen del text\nelse get text'
same "$(cat "$T/stdout")" $'COMPARE FAILED rev=15\nelse[0] text\tabc'
expect 0 "$K" txn $'if version(text) < 2\nthen add n 5\nget text' -o json
same "$(cat "$T/stdout")" \
    '{"outcome":"done","branch":"then","rev":"16","answers":[{"op":"add","number":"5"},{"op":"get","items":[{"key":"text","value":"abc","mod_rev":"14"}]}]}'
for text in 'put k v' 'if k = 1' 'if mod(k) ~ 1' 'if mod(k) = x' 'then put k' 'then get k v' 'then put "k v' \
    'then put k "\q"' 'then del k'$'\n''if mod(k) = 1' 'then add k x'; do
    expect 3 "$K" txn "$text"
    said 'line [12]: '
done
expect 3 "$K" txn $'then put k 1\nput k 2'
expect 4 "$K" txn $'then put other 1\nadd text 1'
expect 1 "$K" get other
stop n1
