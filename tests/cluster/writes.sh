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
    said 'line [12]: expected .*, found '
done

expect 3 "$K" txn $'then put k 1\nput k 2'
expect 4 "$K" txn $'then put other 1\nadd text 1'
expect 1 "$K" get other

say "txn: ranges, conditions, what was there, transactions inside"
same "$("$K" txn $'if exists(/t/ /t0) = 0\n   version(a "") > 0\nthen put /t/a 1\nput /t/b 2\nput /t/c 3')" \
    $'COMMITTED rev=17\nthen[0] OK\nthen[1] OK\nthen[2] OK'
expect 1 "$K" txn $'if exists(/t/ /t0) = 1\n   mod(/t/ /t0) > 17\nthen del-range "" ""\nelse range /t/ /t0 --limit 2\nrange /t/ "" --count\nget nosuch'
same "$(cat "$T/stdout")" \
    $'COMPARE FAILED rev=17\nelse[0] /t/a\t1\nelse[0] /t/b\t2\nelse[0] more (3 total)\nelse[1] count=6\nelse[2] count=0'
expect 1 "$K" txn $'then put /t/new x\nput /t/a 2 --if-rev 16'
expect 1 "$K" get /t/new
expect 1 "$K" txn 'then put /t/a 2 --lease 5'
"$K" lease grant 5 --ttl 60s >/dev/null
same "$("$K" txn $'if lease(/t/a) = 0\nthen put /t/a 2 --lease 5 --if-rev 17 --prev\nput /t/b --keep-value --prev\ndel /t/c --prev')" \
    $'COMMITTED rev=18\nthen[0] OK\nthen[0] prev /t/a\t1\nthen[1] OK\nthen[1] prev /t/b\t2\nthen[2] OK deleted=1\nthen[2] prev /t/c\t3'
same "$("$K" txn $'if lease(/t/a) = 5\nthen put /t/a 3 --keep-lease\ntxn\n  if exists(/t/c) = 1\n  then del /t/b\n  else txn\n    then put /t/d 4\n    get /t/d\n  end\n  put /t/e 5\nend\nrange /t/ /t0 --desc --keys-only')" \
    $'COMMITTED rev=19\nthen[0] OK\nthen[1] COMPARE FAILED\nthen[1].else[0] COMMITTED\nthen[1].else[0].then[0] OK\nthen[1].else[0].then[1] /t/d\t4\nthen[1].else[1] OK\nthen[2] /t/e\t\nthen[2] /t/d\t\nthen[2] /t/b\t\nthen[2] /t/a\t'
same "$("$K" txn $'then txn\n if mod(/t/d) = 19\n then add n 1 --prev\n end\nrange /t/ /t0 --limit 1' -o json)" \
    '{"outcome":"done","branch":"then","rev":"20","answers":[{"op":"txn","branch":"then","answers":[{"op":"add","number":"6","prev":[{"key":"n","value":"5","mod_rev":"16"}]}]},{"op":"get","items":[{"key":"/t/a","value":"3","mod_rev":"19"}],"total":"4","more":true}]}'
same "$("$K" lease revoke 5 -o json | grep -o '"deleted":"1"')" '"deleted":"1"'
expect 3 "$K" txn $'then txn\nput k v\nend'
said 'line 2: expected if, then or else, in this order, found '
stop n1
