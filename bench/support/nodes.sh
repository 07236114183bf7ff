# shellcheck shell=bash
# Three nodes to measure, ours or etcd's, on free ports of the loopback and on the same disk. Sourced.
#
# KVCTL names the program. LKV_BENCH_DIR is where the data goes; it must be on the disk that is meant
# (default: the build folder, since /tmp may be memory).
set -euo pipefail
export LC_ALL=C.UTF-8

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
KVCTL=$(realpath "${KVCTL:-$top/build/release/bin/kvctl}")
[[ -x $KVCTL ]] || {
    echo "bench: no kvctl at $KVCTL (./dev build release)" >&2
    exit 3
}
mkdir -p "${LKV_BENCH_DIR:=$top/build/bench}"
dir=$(mktemp -d "$LKV_BENCH_DIR/run.XXXXXX")
declare -A pid=()
declare -a others=()
unset KVCTL_ENDPOINTS KVCTL_DIR KVCTL_CONFIG KVCTL_OUTPUT KVCTL_HEX KVCTL_TIMEOUT KVCTL_TRACE

cleanup() {
    local p
    for p in "${pid[@]}" "${others[@]}"; do kill -KILL "$p" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

die() {
    echo "bench: $*" >&2
    tail -n 5 "$dir"/*.err >&2 2>/dev/null || true
    exit 1
}
# field NAME: of the one-line JSON object on stdin.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }
within() {
    local end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [[ $(date +%s) -le $end ]] || return 1
        sleep 0.05
    done
}

free_ports() { # COUNT: sets ports
    local port
    ports=()
    while [[ ${#ports[@]} -lt $1 ]]; do
        port=$((20000 + RANDOM % 10000))
        [[ " ${ports[*]:-} " != *" $port "* ]] || continue
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || ports+=("$port")
    done
}

# ------------------------------------------------------------------ ours

is_ready() { grep -q '^ready' "$dir/$1.out"; }
start_node() { # ID
    local i=$((${1#n} - 1))
    : >"$dir/$1.out"
    "$KVCTL" serve --id "$1" --dir "$dir/$1" --listen "127.0.0.1:${ports[i]}" --peers "$peers" \
        >"$dir/$1.out" 2>>"$dir/$1.err" &
    pid[$1]=$!
    within 20 is_ready "$1" || die "$1 is not ready"
}
leader() { "$KVCTL" --endpoints "$endpoints" --timeout 2s status -o json 2>/dev/null | field leader; }
has_leader() { [[ -n $(leader) ]]; }
start_ours() {
    free_ports 3
    peers="n1=127.0.0.1:${ports[0]},n2=127.0.0.1:${ports[1]},n3=127.0.0.1:${ports[2]}"
    endpoints="127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}"
    local id
    for id in n1 n2 n3; do start_node "$id"; done
    within 20 has_leader || die "no leader"
}

# ------------------------------------------------------------------ etcd

start_etcd() {
    free_ports 6
    local i initial
    initial="e1=http://127.0.0.1:${ports[3]},e2=http://127.0.0.1:${ports[4]},e3=http://127.0.0.1:${ports[5]}"
    endpoints="127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}"
    for i in 0 1 2; do
        etcd --name "e$((i + 1))" --data-dir "$dir/e$((i + 1))" \
            --listen-client-urls "http://127.0.0.1:${ports[i]}" \
            --advertise-client-urls "http://127.0.0.1:${ports[i]}" \
            --listen-peer-urls "http://127.0.0.1:${ports[i + 3]}" \
            --initial-advertise-peer-urls "http://127.0.0.1:${ports[i + 3]}" \
            --initial-cluster "$initial" --initial-cluster-state new \
            --quota-backend-bytes 8589934592 >"$dir/e$((i + 1)).err" 2>&1 &
        pid[e$((i + 1))]=$!
    done
    within 30 etcd_is_healthy || die "etcd is not healthy"
}
etcd_is_healthy() {
    ETCDCTL_API=3 etcdctl --endpoints "$endpoints" endpoint health >/dev/null 2>&1
}

stop_all() {
    local id
    for id in "${!pid[@]}"; do kill -TERM "${pid[$id]}" 2>/dev/null || true; done
    for id in "${!pid[@]}"; do
        wait "${pid[$id]}" 2>/dev/null || true
        rm -rf "${dir:?}/$id"
    done
    pid=()
}

# ------------------------------------------------------------------ figures

# Processor time of all nodes so far, in milliseconds.
cpu_ms() {
    local id total=0 stat
    for id in "${!pid[@]}"; do
        stat=$(<"/proc/${pid[$id]}/stat")
        # shellcheck disable=SC2086 # words, behind the name in parentheses
        set -- ${stat##*) }
        total=$((total + ${12} + ${13}))
    done
    echo $((total * 1000 / $(getconf CLK_TCK)))
}
rss_kb() { # the largest of all nodes
    local id
    for id in "${!pid[@]}"; do awk '/^VmRSS/ { print $2 }' "/proc/${pid[$id]}/status"; done | sort -n | tail -n 1
}
now_ms() { date +%s%3N; }
commit() { git -C "$top" describe --always --dirty --abbrev=12 2>/dev/null || echo unknown; }
# record JSON: appends it to the history.
record() {
    printf '{"date":"%s","commit":"%s","cpus":%s,"load":%s,%s}\n' "$(date -u +%FT%TZ)" "$(commit)" \
        "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)" "$1" \
        >>"$top/bench/history.ndjson"
}
