#!/usr/bin/env bash
# What an import waits for: with one line left, attempts that fail one after another use up its
# patience together, and count as one time without an acknowledgement.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

start_alone n1
mkfifo "$T/lines"
lines() { [[ $(wc -l <"$T/acks" 2>/dev/null || echo 0) -eq $1 ]]; }
# import PATIENCE: reads $T/lines through descriptor 9.
import() {
    : >"$T/acks"
    "$KVCTL" --endpoints "127.0.0.1:$(port n1)" import - --gaps -o json --ack-log "$T/acks" \
        --patience "$1" <"$T/lines" >"$T/import.json" 2>"$T/import.err" &
    importer=$!
    others+=("$importer")
    exec 9>"$T/lines"
    echo '{"key":"a","value":"1"}' >&9
    within 10 lines 1 || fail "the first line was not acknowledged"
}

# A stop is only asked for by the signal: it is there when every thread has stopped.
stopped() { ! grep -L '^State:[[:space:]]*T' /proc/"${pid[n1]}"/task/*/status | grep -q .; }
put_to_sleep() {
    kill -STOP "${pid[n1]}"
    within 5 stopped || fail "the node does not stop"
}

say "the node sleeps longer than one attempt takes: the gap is the whole of it"
import 60s
put_to_sleep
echo '{"key":"b","value":"2"}' >&9
exec 9>&-
sleep 4
kill -CONT "${pid[n1]}"
wait "$importer" || fail "the import ended with $?"
say "$(cat "$T/import.json")"
gap=$(field gap_ms <"$T/import.json")
[[ ${gap%.*} -ge 3900 ]] || fail "4 s without an acknowledgement, and the gap is $gap ms"

say "the node sleeps on: patience of 4 s ends it"
import 4s
put_to_sleep
begun=$(now_ms)
echo '{"key":"b","value":"3"}' >&9
exec 9>&-
code=0
wait "$importer" || code=$?
took=$(($(now_ms) - begun))
say "after $took ms with $code: $(cat "$T/import.err")"
[[ $code -eq 6 || $code -eq 5 ]] || fail "exit code $code"
grep -q "out of patience" "$T/import.err" || fail "it does not say why"
[[ $took -ge 3900 && $took -le 8000 ]] || fail "4 s of patience took $took ms"
kill -CONT "${pid[n1]}"
stop n1
