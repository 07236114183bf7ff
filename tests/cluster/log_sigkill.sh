#!/usr/bin/env bash
# Log mode under SIGKILL: every acknowledged index has the record that was acknowledged, on all nodes, and
# every index has the same record everywhere.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
declare -a appenders=()

# appender NAME: appends "NAME 1", "NAME 2", ... until interrupted; $T/NAME.acks has line TAB index.
appender() {
    awk -v n="$1" 'BEGIN { for (i = 1; ; i++) print n, i }' |
        exec "$KVCTL" --endpoints "$cluster" append --lines --in-flight 32 >"$T/$1.acks" 2>"$T/$1.log" &
    others+=("$!")
    appenders+=("$!")
}
node_log() { "$KVCTL" --endpoints "127.0.0.1:$(port "$1")" read 0 --count 100000000 >"$T/$1.log.all"; }

for id in n1 n2 n3; do start "$id" --model log --segment_bytes 1MiB; done
await_leader
for name in a b c; do appender "$name"; done
killed=0
end=$((SECONDS + ${LKV_SECONDS:-10}))
while [[ $SECONDS -lt $end ]]; do
    sleep 1.7
    victim=n$((RANDOM % 3 + 1))
    kill_hard "$victim"
    killed=$((killed + 1))
    sleep 0.3
    start "$victim"
done
await_leader
for p in "${appenders[@]}"; do kill -INT "$p"; done
for p in "${appenders[@]}"; do
    status=0
    wait "$p" || status=$?
    [[ $status -eq 130 || $status -eq 6 || $status -eq 5 ]] || fail "an appender ended with $status"
done

say "killed $killed times"
for id in n1 n2 n3; do node_log "$id"; done
cmp "$T/n1.log.all" "$T/n2.log.all" || fail "n1 and n2 differ"
cmp "$T/n1.log.all" "$T/n3.log.all" || fail "n1 and n3 differ"
for name in a b c; do
    awk -F'\t' -v n="$name" '$2 ~ /^[0-9]+$/ { print $2 "\t" n " " $1 }' "$T/$name.acks"
done | LC_ALL=C sort >"$T/acknowledged"
LC_ALL=C sort "$T/n1.log.all" >"$T/stored"
missing=$(LC_ALL=C comm -23 "$T/acknowledged" "$T/stored" | tee "$T/missing" | wc -l)
say "acknowledged $(wc -l <"$T/acknowledged"), stored $(wc -l <"$T/stored"), missing or elsewhere $missing"
[[ -s $T/acknowledged ]] || fail "nothing was acknowledged"
[[ $missing -eq 0 ]] || { head "$T/missing" >&2; fail "$missing acknowledged records are not where they were"; }

say "a record appears once, and what was refused never"
cut -f2 "$T/n1.log.all" | LC_ALL=C sort | uniq -d >"$T/twice"
[[ ! -s $T/twice ]] || { head "$T/twice" >&2; fail "records appear twice"; }
for name in a b c; do
    awk -F'\t' -v n="$name" '$2 == "-" { print n " " $1 }' "$T/$name.acks"
done | LC_ALL=C sort >"$T/refused"
cut -f2 "$T/n1.log.all" | LC_ALL=C sort | LC_ALL=C comm -12 - "$T/refused" >"$T/undead"
[[ ! -s $T/undead ]] || { head "$T/undead" >&2; fail "refused records are in the log"; }

say "each appender's acknowledged records are in the order of its lines"
for name in a b c; do
    awk -F'\t' '$2 ~ /^[0-9]+$/ { print $1 "\t" $2 }' "$T/$name.acks" | sort -n |
        awk -F'\t' '$2 + 0 <= last { print; bad = 1 } { last = $2 + 0 } END { exit bad }' ||
        fail "$name is out of order"
done

say "after a restart of all three they are still there"
for id in n1 n2 n3; do kill_hard "$id"; done
cp "$T/n1.log.all" "$T/before"
for id in n1 n2 n3; do start "$id"; done
await_leader
node_log n2
cmp "$T/before" "$T/n2.log.all" || fail "n2 has changed"
for id in n1 n2 n3; do stop "$id"; done
