#!/usr/bin/env bash
# The engine rocksdb on three nodes: kills under load with a slow disk below the state (X-A3), a state that is taken
# away, spoilt or ahead of its log (rule 12), engines side by side and changed by a restart, and an error in
# the background (S22).
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ -n ${STATE_DISK:-} ]] || { skip "built without librocksdb-dev"; exit 0; }
seconds=${SECONDS_OF_LOAD:-4}
small=(--image_log_bytes 131072 --keep_entries 100)
on_disk=(--engine rocksdb "${small[@]}")

# start_slow ID: each sync of the state takes 50 ms longer; it fails while $T/ID.fails is there.
start_slow() {
    LD_PRELOAD=$STATE_DISK STATE_DISK_DELAY_MS=50 STATE_DISK_FAILS=$T/$1.fails start "$1" "${on_disk[@]}"
}
read_all() { "$KVCTL" --endpoints "127.0.0.1:$(port "$1")" get --prefix x/ -o json; }

# count_up CLIENT UNTIL_MS: adds one by compare and set, again and again; a line for each that was done or is unknown.
count_up() {
    local now value rev status
    touch "$T/done.$1" "$T/unknown.$1"
    while [[ $(now_ms) -lt $2 ]]; do
        now=$("$KVCTL" --endpoints "$cluster" --timeout 5s get counter -o json 2>/dev/null) || continue
        value=$(field value <<<"$now")
        rev=$(field mod_rev <<<"$now")
        status=0
        "$KVCTL" --endpoints "$cluster" --timeout 5s put counter $((value + 1)) --if-rev "$rev" &>/dev/null || status=$?
        case $status in
        0) echo >>"$T/done.$1" ;;
        6) echo >>"$T/unknown.$1" ;;
        esac
    done
}

say "X-A3: one key is written by eight clients while nodes are killed: its version counts the writes; and so does a counter"
for id in n1 n2 n3; do start_slow "$id"; done
await_leader
"$KVCTL" --endpoints "$cluster" --timeout 20s bench mixed --reads 20 --clients 8 --keys 1 --duration "${seconds}s" \
    --value-size 100 --prefix x/ --history "$T/history" -o json >"$T/bench.json" 2>"$T/bench.err" &
load=$!
others+=("$load")
end=$(($(now_ms) + (seconds - 1) * 1000))
"$KVCTL" --endpoints "$cluster" --timeout 20s put counter 0 >/dev/null
counters=()
for client in 1 2 3 4 5 6 7 8; do
    count_up "$client" "$end" &
    counters+=("$!")
    others+=("$!")
done
while [[ $(now_ms) -lt $end ]]; do
    sleep 1
    victim=n$((RANDOM % 3 + 1))
    kill_hard "$victim"
    start_slow "$victim"
done
status=0
wait "$load" || status=$?
[[ $status -eq 0 || $status -eq 6 ]] || fail "the load ended with $status"
wait "${counters[@]}"
await_leader
counted=$("$KVCTL" --endpoints "$cluster" --timeout 20s get counter)
acknowledged=$(cat "$T"/done.* | wc -l)
unknown=$(cat "$T"/unknown.* | wc -l)
say "counter=$counted done=$acknowledged unknown=$unknown"
[[ $acknowledged -gt 0 && $counted -ge $acknowledged && $counted -le $((acknowledged + unknown)) ]] || fail "the counter is wrong"
"$KVCTL" --endpoints "$cluster" --timeout 20s get --prefix x/ -o json |
    sed 's/.*"key":"\([^"]*\)".*"version":"\([0-9]*\)".*/\1\t\2/' >"$T/versions"
say "$(cat "$T/bench.json")"
[[ $(wc -l <"$T/versions") -eq 1 ]] || fail "one key should be there"
say "$("$WITNESS" "$T/history" "$T/versions")" || fail "the counter is wrong"
check_agreement

say "a state that is taken away or spoilt is made anew; one member may keep its own in memory"
for id in n1 n2 n3; do stop "$id"; done
rm -rf "$T/n1/state"
map=$(ls -d "$T"/n2/state/*)
for file in "$map"/*.sst "$map"/MANIFEST-*; do
    printf 'spoilt' | dd of="$file" bs=1 seek=40 conv=notrunc status=none
done
start n1 "${on_disk[@]}"
start n2 "${on_disk[@]}"
start n3 "${small[@]}"
await_leader
check_agreement
same "$(read_all n1)" "$(read_all n3)"
for i in $(seq 3); do "$KVCTL" --endpoints "$cluster" put "x/more$i" "$i" >/dev/null; done
check_agreement
stop n3
start n3 "${on_disk[@]}"
check_agreement

say "a bad block that a read meets stops the member, and its next start makes the state anew; so does a lost MANIFEST"
"$KVCTL" --endpoints "$cluster" bench put --clients 4 --count 8000 --keys 8000 --value-size 500 --prefix spoil/ >/dev/null
check_agreement
stop n2
# The largest file's middle is these keys; elsewhere lies what a start reads, which makes the state anew at once.
file=$(stat -c '%s %n' "$T"/n2/state/*/*.sst | sort -n | tail -n 1)
size=${file%% *} file=${file#* }
for ((at = size * 2 / 5; at < size * 3 / 5; at += 8192)); do
    printf 'spoilt' | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
done
start n2 "${on_disk[@]}"
"$KVCTL" --endpoints "127.0.0.1:7102" get --prefix '' --local >/dev/null 2>"$T/stderr" || true
ended_n2() { ! kill -0 "${pid[n2]}" 2>/dev/null; }
within 10 ended_n2 || fail "n2 goes on with a damaged state: $(cat "$T/stderr")"
grep -q '"stopped".*/state.*the next start makes it anew' "$T/n2.err" || fail "n2 does not say why"
unset "pid[n2]"
start n2 "${on_disk[@]}"
grep -q '"state-damaged"' "$T/n2.err" || fail "n2 did not make its state anew"
check_agreement
stop n2
rm "$T"/n2/state/*/MANIFEST-*
start n2 "${on_disk[@]}"
check_agreement

say "S22: an error in the background stops the member, which says so; the others go on"
stop n3
start_slow n3
await_leader
touch "$T/n3.fails"
"$KVCTL" --endpoints "127.0.0.1:7101,127.0.0.1:7102" bench put --clients 4 --count 2000 --value-size 500 \
    --prefix y/ >/dev/null
ended() { ! kill -0 "${pid[n3]}" 2>/dev/null; }
within 20 ended || fail "n3 goes on with a disk that fails"
grep -q '"stopped".*/state.*IO error' "$T/n3.err" || fail "n3 does not say why"
unset "pid[n3]"
rm "$T/n3.fails"
start n3 "${on_disk[@]}"
check_agreement

say "rule 12: a state ahead of its log, which was put back from a copy, is told"
stop n1
cp -a "$T/n1/data" "$T/n1.data"
start n1 "${on_disk[@]}"
await_leader
for i in $(seq 20); do "$KVCTL" --endpoints "$cluster" put "x/later$i" "$i" >/dev/null; done
check_agreement
stop n1
rm -rf "$T/n1/data"
mv "$T/n1.data" "$T/n1/data"
start n1 "${on_disk[@]}"
check_agreement
grep -q 'state-ahead\|data-put-back' "$T/n1.err" || fail "n1 says nothing of it"
for id in n1 n2 n3; do stop "$id"; done
