#!/usr/bin/env bash
# Three nodes that nobody asks anything: processor and memory of each over 20 s.
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

seconds=${LKV_BENCH_SECONDS:-20}
start_ours
"$KVCTL" --endpoints "$endpoints" put one 1 >/dev/null
sleep 2
leads=$(leader)

node_ms() { # ID
    local stat
    stat=$(<"/proc/${pid[$1]}/stat")
    # shellcheck disable=SC2086 # words, behind the name in parentheses
    set -- ${stat##*) }
    echo $(((${12} + ${13}) * 1000 / $(getconf CLK_TCK)))
}
declare -A before=()
for id in n1 n2 n3; do before[$id]=$(node_ms "$id"); done
sleep "$seconds"
rows=
printf '%-5s %-9s %12s %9s\n' node role '% of a core' 'RSS MB'
for id in n1 n2 n3; do
    used=$(($(node_ms "$id") - before[$id]))
    rss=$(awk '/^VmRSS/ { print $2 }' "/proc/${pid[$id]}/status")
    role=follower
    [[ $id != "$leads" ]] || role=leader
    percent=$(awk -v u="$used" -v s="$seconds" 'BEGIN { printf "%.2f", u / (s * 10) }')
    printf '%-5s %-9s %12s %9s\n' "$id" "$role" "$percent" "$(awk -v r="$rss" 'BEGIN { printf "%.1f", r / 1024 }')"
    rows+="${rows:+,}{\"role\":\"$role\",\"cpu_percent\":$percent,\"rss_kb\":$rss}"
done
stop_all
record "\"bench\":\"idle\",\"seconds\":$seconds,\"rows\":[$rows]"
