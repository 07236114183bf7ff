#!/usr/bin/env bash
# SIGKILL of the leader under a steady stream of writes, default options: the time from the last
# acknowledgement before to the first one after. Median and worst of 20.
#
#   failover.sh [TIMES]
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

times=${1:-20}
start_ours
acks=$dir/acks

lines() { wc -l <"$acks" 2>/dev/null || echo 0; }
more_than() { [[ $(lines) -gt $1 ]]; }
all_equal() {
    "$KVCTL" --endpoints "$endpoints" endpoint hash -o json >"$dir/hash" 2>/dev/null &&
        [[ $(grep -c '"digest"' "$dir/hash") -eq 3 ]]
}

gaps=()
for ((i = 1; i <= times; i++)); do
    within 20 all_equal || die "the three are not well"
    : >"$acks"
    # One write at a time: what a client sees.
    awk -v n="$i" 'BEGIN { for (j = 1; ; j++) printf "{\"key\":\"failover/%d\",\"value\":\"%d\"}\n", j % 1000, n }' |
        exec "$KVCTL" --endpoints "$endpoints" import - --in-flight 1 --gaps --ack-log "$acks" -o json >"$dir/figures" 2>"$dir/load.err" &
    others=("$!")
    within 10 more_than 200 || die "no writes"
    sleep 0.$((RANDOM % 9 + 1))
    victim=$(leader)
    at=$(lines)
    kill -KILL "${pid[$victim]}"
    wait "${pid[$victim]}" 2>/dev/null || true
    within 20 more_than $((at + 300)) || die "no writes after the death of $victim"
    kill -INT "${others[0]}"
    wait "${others[0]}" || true
    others=()
    gap=$(field gap_ms <"$dir/figures")
    gaps+=("$gap")
    printf 'SIGKILL %2d: %s ms without an acknowledgement\n' "$i" "${gap%.*}"
    start_node "$victim"
done
sorted=$(printf '%s\n' "${gaps[@]}" | sort -n)
median=$(sed -n "$(((times + 1) / 2))p" <<<"$sorted")
worst=$(tail -n 1 <<<"$sorted")
printf 'median %s ms, worst of %d %s ms\n' "${median%.*}" "$times" "${worst%.*}"
stop_all
record "\"bench\":\"failover\",\"times\":$times,\"median_ms\":$median,\"worst_ms\":$worst"
