#!/usr/bin/env bash
# Writes beside etcd, in one run: three processes each, 16 B keys, 256 B values, fsync on, closed loop.
# For each number of operations in flight a fresh cluster of each, one after the other.
#
#   put.sh [--no-etcd] [CLIENTS...]       default: 1 16 64 256
#
# CPU per operation is that of the three servers, sampled within the measured time. A line goes to
# bench/history.ndjson.
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

seconds=${LKV_BENCH_SECONDS:-8}
etcd=1
if [[ ${1:-} == --no-etcd ]]; then
    etcd=
    shift
fi
[[ $# -gt 0 ]] || set -- 1 16 64 256

need_etcd() {
    local missing=() package
    for package in etcd-server etcd-client golang-go golang-etcd-server-dev; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    if [[ ${#missing[@]} -gt 0 ]]; then
        [[ $EUID -eq 0 ]] || die "needs ${missing[*]} (or --no-etcd)"
        apt-get update -q >/dev/null
        RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >/dev/null
    fi
    generator=$top/build/etcdbench/etcdbench
    if [[ ! -x $generator || $top/bench/peers/etcdbench.go -nt $generator ]]; then
        mkdir -p "$top/build/etcdbench"
        cp "$top/bench/peers/etcdbench.go" "$top/build/etcdbench/main.go"
        (cd "$top/build/etcdbench" && GOPATH=/usr/share/gocode GO111MODULE=off GOFLAGS=-p=2 go build -o etcdbench .)
    fi
}

load_ours() {
    "$KVCTL" --endpoints "$endpoints" bench put --clients "$1" --duration "${seconds}s" --warmup 1s \
        --value-size 256 --keys 100000 -o json
}
load_etcd() {
    "$generator" -endpoints "$endpoints" -clients "$1" -duration "${seconds}s" -warmup 1s -value-size 256 -keys 100000
}

# measure NAME CLIENTS: a row of the table, and of the history.
measure() {
    local name=$1 clients=$2 cpu begun rss ops p50 p99 per_op
    "start_$name"
    "load_$name" "$clients" >"$dir/figures" &
    others=("$!")
    sleep 1.3 # behind the warm-up
    cpu=$(cpu_ms) begun=$(now_ms)
    sleep $((seconds - 1))
    cpu=$(($(cpu_ms) - cpu)) begun=$(($(now_ms) - begun))
    rss=$(rss_kb)
    wait "${others[0]}" || die "$name: the load ended with $?"
    others=()
    stop_all
    ops=$(field ops_per_s <"$dir/figures") p50=$(field p50_us <"$dir/figures") p99=$(field p99_us <"$dir/figures")
    per_op=$(awk -v c="$cpu" -v t="$begun" -v o="$ops" 'BEGIN { printf "%.1f", (o > 0 ? c * 1000 / (t / 1000 * o) : 0) }')
    awk -v n="$name" -v c="$clients" -v k="$(field connections <"$dir/figures")" -v o="$ops" -v a="$p50" -v b="$p99" \
        -v u="$per_op" -v r="$rss" -v e="$(field errors <"$dir/figures")" \
        'BEGIN { printf "%-9s %7d %6d %9.0f %9.2f %9.2f %10.1f %8.1f %7d\n", n, c, k, o, a / 1000, b / 1000, u, r / 1024, e }'
    rows+="${rows:+,}{\"name\":\"$name\",\"clients\":$clients,\"ops_per_s\":$ops,\"p50_us\":$p50,\"p99_us\":$p99,\"cpu_us_per_op\":$per_op,\"rss_kb\":$rss}"
    figure[$name,$clients]="$ops $p99 $per_op"
}

[[ -z $etcd ]] || need_etcd
declare -A figure=()
rows=
echo "put, 16 B keys, 256 B values, ${seconds} s each, $(nproc) processors, data on $(stat -f -c %T "$dir")"
printf '%-9s %7s %6s %9s %9s %9s %10s %8s %7s\n' name clients conns ops/s 'p50 ms' 'p99 ms' 'CPU us/op' 'RSS MB' errors
for clients in "$@"; do
    measure ours "$clients"
    [[ -z $etcd ]] || measure etcd "$clients"
done
if [[ -n $etcd ]]; then
    echo
    for clients in "$@"; do
        # shellcheck disable=SC2086 # three words each
        set -- ${figure[ours,$clients]} ${figure[etcd,$clients]}
        awk -v c="$clients" -v o="$1" -v p="$2" -v u="$3" -v eo="$4" -v ep="$5" -v eu="$6" 'BEGIN {
            printf "%4d in flight: %.1f x the writes of etcd, %.2f x its p99, %.2f x its CPU per write\n",
                c, (eo > 0 ? o / eo : 0), (ep > 0 ? p / ep : 0), (eu > 0 ? u / eu : 0) }'
    done
fi
record "\"bench\":\"put\",\"seconds\":$seconds,\"rows\":[$rows]"
