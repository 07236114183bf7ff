#!/usr/bin/env bash
# Log mode: three processes, fsync on, appends of 256 bytes, 1, 4 and 64 KiB in batches of 1, 16 and 256, for
# each a fresh cluster; the middle ones also with a reader that follows, and with retention.
#
#   log.sh [IN_FLIGHT]       appends in flight (default 64; at most 16 MiB of records among them)
#
# One line a case: appends and records a second, megabytes a second, latencies of an append, processor time
# of the three servers for each record. A line goes to bench/history.ndjson.
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

seconds=${LKV_BENCH_SECONDS:-5}
wanted=${1:-64}
rows=

start_log() { # [OPTION...]
    free_ports 3
    peers="n1=127.0.0.1:${ports[0]},n2=127.0.0.1:${ports[1]},n3=127.0.0.1:${ports[2]}"
    endpoints="127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}"
    local i id
    for i in 0 1 2; do
        id=n$((i + 1))
        : >"$dir/$id.out"
        "$KVCTL" serve --id "$id" --dir "$dir/$id" --listen "127.0.0.1:${ports[i]}" --peers "$peers" \
            --model log "$@" >"$dir/$id.out" 2>>"$dir/$id.err" &
        pid[$id]=$!
        within 20 is_ready "$id" || die "$id is not ready"
    done
    within 20 has_leader || die "no leader"
}

# As many appends in flight as asked for, but no more than 16 MiB of records, and at least two.
in_flight() { # SIZE BATCH
    local most=$((16 * 1024 * 1024 / ($1 * $2)))
    [[ $most -ge 2 ]] || most=2
    [[ $most -lt $wanted ]] || most=$wanted
    echo "$most"
}

# measure NAME SIZE BATCH READER [OPTION...]: a row of the table, and of the history.
measure() {
    local name=$1 size=$2 batch=$3 reader=$4 cpu begun appends records mb p50 p99 per_record read=0 clients
    local follower=
    shift 4
    clients=$(in_flight "$size" "$batch")
    start_log "$@"
    others=()
    if [[ -n $reader ]]; then
        "$KVCTL" --endpoints "$endpoints" read 0 --follow -o raw 2>/dev/null > >(wc -c >"$dir/read") &
        follower=$!
    fi
    "$KVCTL" --endpoints "$endpoints" bench append --clients "$clients" --duration "${seconds}s" --warmup 1s \
        --value-size "$size" --batch "$batch" -o json >"$dir/figures" &
    others=("$!" ${follower:+"$follower"})
    sleep 1.3 # behind the warm-up
    cpu=$(cpu_ms) begun=$(now_ms)
    sleep $((seconds - 1))
    cpu=$(($(cpu_ms) - cpu)) begun=$(($(now_ms) - begun))
    wait "${others[0]}" || die "$name: the load ended with $?"
    if [[ -n $reader ]]; then
        kill -INT "$follower" # it would wait for its cluster for ever
        wait "$follower" || true
        read=$(<"$dir/read")
    fi
    others=()
    stop_all
    appends=$(field ops_per_s <"$dir/figures") records=$(field records_per_s <"$dir/figures")
    mb=$(field mb_per_s <"$dir/figures")
    p50=$(field p50_us <"$dir/figures") p99=$(field p99_us <"$dir/figures")
    per_record=$(awk -v c="$cpu" -v t="$begun" -v o="$records" 'BEGIN { printf "%.2f", (o > 0 ? c * 1000 / (t / 1000 * o) : 0) }')
    awk -v n="$name" -v s="$size" -v b="$batch" -v c="$clients" -v a="$appends" -v r="$records" -v m="$mb" -v p="$p50" \
        -v q="$p99" -v u="$per_record" -v e="$(field errors <"$dir/figures")" -v f="$read" \
        'BEGIN { printf "%-10s %6d %5d %6d %9.0f %10.0f %8.1f %9.2f %9.2f %9.2f %7.0f %6d\n", n, s, b, c, a, r, m, p / 1000, q / 1000, u, f / 1e6, e }'
    rows+="${rows:+,}{\"name\":\"$name\",\"size\":$size,\"batch\":$batch,\"clients\":$clients,\"records_per_s\":$records,\"mb_per_s\":$mb,\"p50_us\":$p50,\"p99_us\":$p99,\"cpu_us_per_record\":$per_record}"
}

echo "append, three nodes, ${seconds} s each, $(nproc) processors, data on $(stat -f -c %T "$dir")"
printf '%-10s %6s %5s %6s %9s %10s %8s %9s %9s %9s %7s %6s\n' case bytes batch flight appends/s records/s MB/s \
    'p50 ms' 'p99 ms' 'CPU us/r' 'read MB' errors
for size in 256 1024 4096 65536; do
    for batch in 1 16 256; do
        measure plain "$size" "$batch" ''
    done
done
for size in 1024 65536; do
    measure tail "$size" 16 1
    measure retention "$size" 16 '' --retention_bytes 256MiB --keep_entries 1000
done
measure both 1024 16 1 --retention_bytes 256MiB --keep_entries 1000 --retention_ms 10s
record "\"bench\":\"log\",\"seconds\":$seconds,\"rows\":[$rows]"
