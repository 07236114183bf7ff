#!/usr/bin/env bash
# kvctl lock and elect: one holder at a time, tokens that rise, the program's exit code; a holder that stands still
# for longer than its ttl has lost the lock when it goes on, and another one has it (C14, X-I9).
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for id in n1 n2 n3; do start "$id"; done
await_leader
ctl() { "$KVCTL" --endpoints "$cluster" "$@"; }

# Each adds a line when it enters and when it leaves: they never mix.
job="echo in >>$T/lines; sleep 0.1; echo out >>$T/lines; echo \$KVCTL_LOCK_TOKEN >>$T/tokens"
workers=()
for _ in 1 2 3 4; do
    ctl lock /jobs/a --ttl 10s -- bash -c "$job" &
    workers+=("$!")
done
for worker in "${workers[@]}"; do wait "$worker" || fail "a holder ended with $?"; done
same "$(paste -sd' ' "$T/lines")" "in out in out in out in out" "who was inside:"
same "$(sort -n "$T/tokens" | paste -sd' ')" "$(paste -sd' ' "$T/tokens")" "tokens in the order of holding:"
same "$(sort -u "$T/tokens" | wc -l)" 4 "different tokens:"

status=0
ctl lock /jobs/a -- bash -c 'exit 7' || status=$?
same "$status" 7 "the program's exit code:"

"$KVCTL" --endpoints "$cluster" lock /jobs/b --ttl 1s -- bash -c "echo \$KVCTL_LOCK_TOKEN >$T/first; exec sleep 60" 2>"$T/err" &
paused=$!
others+=("$paused")
until [[ -s $T/first ]]; do sleep 0.05; done
status=0
ctl lock /jobs/b --timeout 300ms -- true 2>"$T/err2" || status=$?
same "$status" 5 "a lock that is not free in time:"
kill -STOP "$paused"
ctl lock /jobs/b --ttl 10s -- bash -c "echo \$KVCTL_LOCK_TOKEN >$T/second"
[[ $(cat "$T/second") -gt $(cat "$T/first") ]] || fail "the second token is not above the first"
kill -CONT "$paused"
status=0
wait "$paused" || status=$?
same "$status" 1 "a lock that was lost:"
grep -q "lock lost" "$T/err" || fail "it was not told: $(cat "$T/err")"

# X-I9: the holder goes on, and nobody answers it any more: its connections stay, and are silent.
"$KVCTL" --endpoints "$cluster" lock /jobs/c --ttl 1s -- bash -c "echo in >$T/third; exec sleep 60" 2>"$T/err3" &
alone=$!
others+=("$alone")
until [[ -s $T/third ]]; do sleep 0.05; done
for id in n1 n2 n3; do kill -STOP "${pid[$id]}"; done
gone() { ! kill -0 "$alone" 2>/dev/null; }
within 20 gone || fail "the holder goes on although nobody answers it"
for id in n1 n2 n3; do kill -CONT "${pid[$id]}"; done
status=0
wait "$alone" || status=$?
same "$status" 1 "a lock that was lost in a black hole:"
grep -q "lock lost" "$T/err3" || fail "it was not told: $(cat "$T/err3")"
await_leader

# kvctl lock is killed: its program ends with it, and the lock passes on when the lease has ended.
"$KVCTL" --endpoints "$cluster" lock /jobs/d --ttl 1s -- bash -c "echo \$\$ >$T/fourth; exec sleep 60" &
holder=$!
others+=("$holder")
until [[ -s $T/fourth ]]; do sleep 0.05; done
kill -9 "$holder"
wait "$holder" || true
ended() { ! kill -0 "$(<"$T/fourth")" 2>/dev/null; }
within 20 ended || fail "the program goes on although kvctl lock was killed"
ctl --timeout 20s lock /jobs/d -- true || fail "the lock of a killed holder is not free"

ctl elect /svc/primary n1:80 -- bash -c "until [[ -e $T/seen ]]; do sleep 0.05; done" &
leads=$!
same "$(ctl elect --observe /svc/primary | cut -d' ' -f1)" "n1:80" "who leads:"
touch "$T/seen"
wait "$leads" || fail "who led ended with $?"
status=0
ctl elect --observe /svc/primary --timeout 300ms || status=$?
same "$status" 1 "nobody leads:"
check_agreement
for id in n1 n2 n3; do stop "$id"; done
