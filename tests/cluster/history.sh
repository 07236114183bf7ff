#!/usr/bin/env bash
# kvctl get of older revisions, in any order, filtered, and of one revision however many pages it takes
# (C7, C16).
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
start_alone n1
export KVCTL_ENDPOINTS=127.0.0.1:7101
await_leader "$KVCTL_ENDPOINTS"

say "as of each revision"
for value in 1 2 3; do "$K" put a "$value" >/dev/null; done  # 2 3 4
"$K" put b 9 >/dev/null                                       # 5
"$K" del a >/dev/null                                         # 6
"$K" put c 5 >/dev/null                                       # 7
"$K" put b 0 >/dev/null                                       # 8
for value in 1 2 3; do same "$("$K" get a --rev $((value + 1)))" "$value" "a of then is"; done
expect 1 "$K" get a --rev 6
expect 1 "$K" get a --rev 1
expect 0 "$K" get a --rev 5 -o json
same "$(cat "$T/stdout")" \
    '{"key":"a","value":"3","create_rev":"2","mod_rev":"4","version":"3","lease":"0","read_rev":"5"}'
same "$("$K" get --all --rev 5 | tr '\t\n' '= ')" "a=3 b=9 " "the keys of revision 5 are"
same "$("$K" get --all | tr '\t\n' '= ')" "b=0 c=5 " "the keys are"
same "$("$K" get --all --count --rev 5)" 2 "the count of revision 5 is"
same "$("$K" count --rev 4)" 1 "the count of revision 4 is"
same "$("$K" get a --count --rev 4)$("$K" get a --count)" 10 "the counts of one key are"

same "$("$K" get b --bounded)$("$K" get b --bounded --rev 5)$("$K" count --bounded)" 092 "bounded reads show"

say "C7: what is not there yet is told"
expect 3 "$K" get a --rev 9
said 'revision 9 is in the future: 1 to 8 are kept'
expect 3 "$K" get --all --rev 100 -o json
grep -q '"code":"LKV_EFUTURE".*"outcome":"not_done","retryable":false' "$T/stderr" || fail "no JSON error"
expect 3 "$K" count --rev 9

say "orders and filters"
"$K" put d 3 >/dev/null # 9
order() { "$K" get --all --keys-only "$@" 2>"$T/more" | tr '\n' ' '; }
same "$(order)" "b c d "
same "$(order --desc)" "d c b "
same "$(order --order mod)" "c b d "
same "$(order --order create --desc)" "d c b "
same "$(order --order version --desc)" "b c d "
same "$(order --order value)" "b d c "
same "$(order --order value --limit 2)" "b d "
same "$(cat "$T/more")" "# more (3 total)"
same "$(order --min-mod-rev 8)" "b d "
same "$(order --max-mod-rev 8 --min-create-rev 6)" "c "
same "$(order --max-create-rev 5)" "b "
same "$("$K" get --from-key c --order mod --desc -o json | field key | tr '\n' ' ')" "d c "
expect 3 "$K" get --all --order size
said "not 'size'"
for flag in "--order mod" "--min-mod-rev 3" "--limit 1"; do
    # shellcheck disable=SC2086 # words
    expect 3 "$K" get a $flag
    # shellcheck disable=SC2086
    expect 3 "$K" get --all --count $flag
done
expect 3 "$K" get --all --after b --order mod
expect 3 "$K" get a --rev 0
expect 3 "$K" get --all a

say "C16: pages are of one revision, also when others write and compact in between"
for key in k1 k2 k3 k4 k5 k6; do head -c 600000 /dev/zero | tr '\0' x | "$K" put "$key" - >/dev/null; done
"$K" export "$T/before" --prefix k >/dev/null
mkfifo "$T/pipe"
"$K" get --prefix k >"$T/pipe" 2>"$T/walk.err" &
walker=$!
others+=("$walker")
exec 7<"$T/pipe"
head -c 1000 <&7 >"$T/walk" # it has begun, and waits
"$K" del k5 >/dev/null
"$K" put k6 other >/dev/null
"$K" put k7 other >/dev/null
cat <&7 >>"$T/walk"
exec 7<&-
wait "$walker" || fail "the walk ended with $?: $(cat "$T/walk.err")"
same "$(cut -f1 "$T/walk" | tr '\n' ' ')" "k1 k2 k3 k4 k5 k6 " "the walk shows"
same "$(wc -c <"$T/walk")" $((6 * (600000 + 4))) "the walk has bytes:"
same "$("$K" get --prefix k --keys-only | tr '\n' ' ')" "k1 k2 k3 k4 k6 k7 " "the keys now are"
stop n1

say "C7: what was compacted is told; the directory is read without a server, too"
start_alone n1 --history-revisions 3
compacted() { ! "$K" get a --rev 2 >/dev/null 2>&1; }
for value in 1 2 3 4; do "$K" put z "$value" >/dev/null; done
within 20 compacted || fail "revision 2 is still there"
expect 4 "$K" get --all --rev 2
said 'revision 2 has been compacted: [0-9]* to [0-9]* are kept'
expect 4 "$K" get a --rev 2 -o json
grep -q '"code":"LKV_ECOMPACTED"' "$T/stderr" || fail "no JSON error"
stop n1
unset KVCTL_ENDPOINTS # nobody compacts any more
expect 4 "$K" --dir "$T/n1" get --all --rev 2
kept=$(sed -n 's/.*compacted: \([0-9]*\) to.*/\1/p' "$T/stderr")
expect 0 "$K" --dir "$T/n1" get --all --rev "$kept" --keys-only
expect 4 "$K" --dir "$T/n1" get --all --rev $((kept - 1)) --keys-only
