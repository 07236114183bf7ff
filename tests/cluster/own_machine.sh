#!/usr/bin/env bash
# examples/own_machine.c under SIGKILL: money stays, each answer is the machine's own, no move that was answered is
# lost and none is made twice; and who was away goes on from an image.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
bank=$(dirname "$KVCTL")/../examples/own_machine
[[ -x $bank ]] || fail "no example at $bank"

declare -A commands=() lines=()
# start_bank ID: its commands come from a pipe that stays open.
start_bank() {
    [[ -p $T/$1.in ]] || mkfifo "$T/$1.in"
    touch "$T/$1.said"
    lines[$1]=$(wc -l <"$T/$1.said")
    "$bank" "$T/$1" "$1" "$peers" <"$T/$1.in" >>"$T/$1.said" 2>>"$T/$1.err" &
    pid[$1]=$!
    # shellcheck disable=SC1083,SC2093 # a descriptor of this shell's own
    exec {commands["$1"]}>"$T/$1.in"
    within 20 is_up "$1" || fail "$1 is not up"
}
# shellcheck disable=SC2329,SC2317 # called by within
is_up() { tail -n +"$((lines[$1] + 1))" "$T/$1.said" | grep -q 'is up'; }
drop_bank() { # ID SIGNAL
    kill -"$2" "${pid[$1]}" 2>/dev/null || true
    # shellcheck disable=SC1083,SC2093
    exec {commands["$1"]}>&-
    wait "${pid[$1]}" 2>/dev/null || true
    unset "pid[$1]"
}
tell() { { echo "$2" 1>&"${commands[$1]}"; } 2>/dev/null || true; }
# ask ID COMMAND: its answer, in $answer. Fails when none comes.
ask() {
    local before
    before=$(wc -l <"$T/$1.said")
    tell "$1" "$2"
    within 20 has_said "$1" "$before" || fail "$1 does not answer: $2"
    answer=$(tail -n +"$((before + 1))" "$T/$1.said" | head -n 1)
}
# shellcheck disable=SC2329,SC2317 # called by within
has_said() { [[ $(wc -l <"$T/$1.said") -gt $2 ]]; }

for id in n1 n2 n3; do start_bank "$id"; done
ask n1 'move 3 7 25'
same "$answer" 'moved, 3 has 75, 7 has 125'
ask n2 'move 3 7 76'
same "$answer" 'refused, 3 has 75'
ask n3 show
same "$answer" '1 moves: 100 100 100 75 100 100 100 125 100 100, 1000 in all'

say "load on all of them, one of them killed again and again"
load() { # ID
    while tell "$1" "move $((RANDOM % 10)) $((RANDOM % 10)) $((RANDOM % 40))"; do
        sleep 0.01
    done
}
for round in 1 2 3 4; do
    feeders=()
    for id in n1 n2 n3; do
        load "$id" &
        feeders+=("$!")
    done
    others=("${feeders[@]}")
    sleep 1
    victim=n$((RANDOM % 3 + 1))
    drop_bank "$victim" KILL
    sleep 0.5
    for p in "${feeders[@]}"; do
        kill "$p" 2>/dev/null || true
        wait "$p" 2>/dev/null || true
    done
    others=()
    start_bank "$victim"
    say "round $round: $victim was killed"
done

say "all of them show the same, and nothing that was answered is missing"
sleep 1
# shellcheck disable=SC2329,SC2317 # called by within
all_agree() {
    local id
    for id in n1 n2 n3; do
        tell "$id" show
    done
    sleep 0.3
    for id in n1 n2 n3; do
        grep 'in all' "$T/$id.said" | tail -n 1 >"$T/$id.shown"
    done
    cmp -s "$T/n1.shown" "$T/n2.shown" && cmp -s "$T/n1.shown" "$T/n3.shown"
}
within 30 all_agree || fail "they differ: $(cat "$T"/*.shown)"
grep -q '1000 in all' "$T/n1.shown" || fail "money was made or lost: $(cat "$T/n1.shown")"
moved=$(cat "$T"/*.said | grep -c '^moved' || true)
unknown=$(cat "$T"/*.said | grep -c '^unknown' || true)
counted=$(cut -d' ' -f1 <"$T/n1.shown")
# What was under way in the one that was killed: answered to nobody, made or not.
[[ $counted -ge $moved ]] || fail "$moved moves were answered, $counted are there"
say "$counted moves, $moved of them answered, $unknown unknown"
[[ $moved -gt 100 ]] || fail "hardly any load"

for id in n1 n2 n3; do
    tell "$id" quit
    wait "${pid[$id]}" || fail "$id did not end in order"
    unset "pid[$id]"
done
