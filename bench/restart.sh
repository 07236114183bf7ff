#!/usr/bin/env bash
# How long a node takes from its start to the first answer, after it was killed under load, with each engine.
#
#   restart.sh [KEYS [ROUNDS]]     default: 1000000 keys, 3 rounds; values of 256 bytes
#
# "cpu_ms" is what the process has used of the processor until it was ready, which another load on the machine
# hardly changes.
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

keys=${1:-1000000} rounds=${2:-3}
free_ports 1
endpoints=127.0.0.1:${ports[0]}

launch() { # ENGINE
    : >"$dir/$1.out"
    "$KVCTL" serve --id n1 --dir "$dir/$1" --listen "$endpoints" --engine "$1" --trace info \
        >"$dir/$1.out" 2>"$dir/$1.err" &
    pid[$1]=$!
}
is_answered() { "$KVCTL" --endpoints "$endpoints" --timeout 2s get "bench/0000000001" >/dev/null 2>&1; }
load() { "$KVCTL" --endpoints "$endpoints" --timeout 600s bench put --keys "$keys" --clients 256 --warmup 0s "$@" >/dev/null; }

rows=
printf '%-8s %12s %8s %18s %18s\n' engine 'answers, ms' 'cpu, ms' 'entries in the log' 'entries replayed'
for engine in memory rocksdb; do
    launch "$engine"
    within 20 is_ready "$engine" || die "$engine is not ready"
    load --preload --count 1
    for ((round = 1; round <= rounds; round++)); do
        load --duration 3s --seed "$round"
        kill -KILL "${pid[$engine]}"
        wait "${pid[$engine]}" 2>/dev/null || true
        start=$(now_ms)
        launch "$engine"
        until is_ready "$engine"; do sleep 0.01; done
        cpu=$(cpu_ms)
        until is_answered; do sleep 0.005; done
        answered=$(($(now_ms) - start))
        read -r first last < <(sed -n 's/.*"recovered","text":"entries \([0-9]*\) to \([0-9]*\),.*/\1 \2/p' "$dir/$engine.err")
        state=$(sed -n 's/.*"state-found".*of entry \([0-9]*\)".*/\1/p' "$dir/$engine.err")
        image=$(sed -n 's/.*"recovered".*image \([0-9]*\),.*/\1/p' "$dir/$engine.err")
        replayed=$((last - ${state:-$image}))
        printf '%-8s %12s %8s %18s %18s\n' "$engine" "$answered" "$cpu" $((last - first + 1)) "$replayed"
        rows+="${rows:+,}{\"engine\":\"$engine\",\"answered_ms\":$answered,\"cpu_ms\":$cpu,\"log_entries\":$((last - first + 1)),\"replayed\":$replayed}"
    done
    stop_all
done
record "\"bench\":\"restart\",\"keys\":$keys,\"rows\":[$rows]"
