# shellcheck shell=bash disable=SC2119
# What the tests of real processes share. Sourced by each; not a test.
#
# KVCTL names the program. ctest runs each test in a network namespace of its own, so ports are fixed;
# run by hand, a test makes one for itself when it may. Everything lies under $T, which goes away, and
# every process that was started is killed, whatever happens.
set -euo pipefail
export LC_ALL=C.UTF-8

: "${KVCTL:?names the kvctl under test}"
if [[ -z ${LKV_IN_NETNS:-} && $EUID -eq 0 ]]; then
    export LKV_IN_NETNS=1
    if [[ $(ip -o link show up 2>/dev/null | grep -vc ': lo:') -gt 0 ]] && unshare -n true 2>/dev/null; then
        # shellcheck disable=SC2016 # expanded by the inner shell
        exec unshare -n sh -c 'ip link set lo up && exec bash "$@"' sh "$0" "$@"
    fi
fi

KVCTL=$(realpath "$KVCTL")
T=$(mktemp -d "${TMPDIR:-/tmp}/ledgerkv-test.XXXXXX")
declare -A pid=()     # id -> process
declare -a others=()  # more processes to end
declare -a mounts=()
test_failed=

unset KVCTL_DIR KVCTL_CONFIG KVCTL_OUTPUT KVCTL_HEX KVCTL_TIMEOUT KVCTL_TRACE

cleanup() {
    local status=$? p
    set +e
    for p in "${pid[@]}" "${others[@]}"; do
        kill -CONT "$p" 2>/dev/null
        kill -KILL "$p" 2>/dev/null
    done
    wait 2>/dev/null
    for p in "${mounts[@]}"; do umount "$p"; done
    if [[ $status -ne 0 || -n $test_failed ]]; then
        for p in "$T"/*.err; do
            [[ -s $p ]] && { echo "--- $(basename "$p")"; tail -n 20 "$p"; } >&2
        done
    fi
    rm -rf "$T"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { echo "== $*"; }
fail() {
    echo "FAILED: $*" >&2
    exit 1
}
skip() { echo "SKIPPED, LOUDLY: $*" >&2; }

# field NAME: of the one-line JSON objects on stdin.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }
now_ms() { date +%s%3N; }

# within SECONDS COMMAND...: repeats it until it succeeds.
within() {
    local end=$(($(now_ms) + $1 * 1000))
    shift
    until "$@"; do
        [[ $(now_ms) -lt $end ]] || return 1
        sleep 0.1
    done
}

# expect CODE COMMAND...: its exit code; stdout is left in $T/stdout, stderr in $T/stderr.
expect() {
    local wanted=$1 got=0
    shift
    "$@" >"$T/stdout" 2>"$T/stderr" </dev/null || got=$?
    [[ $got -eq $wanted ]] || {
        cat "$T/stdout" "$T/stderr" >&2
        fail "exit code $got, not $wanted: $*"
    }
}
# said PATTERN: the last `expect` said so on stderr.
said() { grep -q -- "$1" "$T/stderr" || fail "nothing like '$1' in: $(cat "$T/stderr")"; }
same() { [[ $1 == "$2" ]] || fail "${3:-got} '$1', not '$2'"; }

# ------------------------------------------------------------------ nodes

port() { echo $((7100 + ${1#n})); }
peers="n1=127.0.0.1:7101,n2=127.0.0.1:7102,n3=127.0.0.1:7103"
cluster="127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103"

is_ready() { grep -q '^ready' "$T/$1.out"; }
# start ID [OPTION...]: a member of the three.
start() {
    local id=$1
    shift
    start_process "$id" "$KVCTL" serve --id "$id" --dir "$T/$id" --listen "127.0.0.1:$(port "$id")" \
        --peers "$peers" "$@"
}
# start_alone ID [OPTION...]: a cluster of one.
start_alone() {
    local id=$1
    shift
    start_process "$id" "$KVCTL" serve --id "$id" --dir "$T/$id" --listen "127.0.0.1:$(port "$id")" "$@"
}
start_process() {
    local id=$1
    shift
    : >"$T/$id.out"
    "$@" >"$T/$id.out" 2>>"$T/$id.err" &
    pid[$id]=$!
    within 20 ready_or_dead "$id" || fail "$id is not ready after 20 s"
    is_ready "$id" || fail "$id did not start"
}
ready_or_dead() { is_ready "$1" || ! kill -0 "${pid[$1]}" 2>/dev/null; }

kill_hard() {
    kill -KILL "${pid[$1]}"
    wait "${pid[$1]}" 2>/dev/null || true
    unset "pid[$1]"
}
# stop ID: SIGTERM, and it must end with 0.
stop() {
    local status=0
    kill -TERM "${pid[$1]}"
    wait "${pid[$1]}" || status=$?
    unset "pid[$1]"
    same "$status" 0 "$1 ended with"
}

leader() { "$KVCTL" --endpoints "${1:-$cluster}" --timeout 2s status -o json 2>/dev/null | field leader; }
has_leader() { [[ -n $(leader "$@") ]]; }
# shellcheck disable=SC2120 # the endpoints are optional
await_leader() { within 20 has_leader "$@" || fail "no leader after 20 s"; }

# The three agree: every one answers, at one applied index, with one digest.
agree() {
    "$KVCTL" --endpoints "$cluster" endpoint hash -o json >"$T/hash" 2>"$T/hash.why" &&
        [[ $(grep -c '"digest"' "$T/hash") -eq 3 ]] &&
        [[ $(field applied <"$T/hash" | sort -u | wc -l) -eq 1 ]]
}
check_agreement() {
    within 30 agree || { cat "$T/hash" "$T/hash.why" >&2; fail "the nodes are not at one index after 30 s"; }
    [[ $(field digest <"$T/hash" | sort -u | wc -l) -eq 1 ]] || { cat "$T/hash" >&2; fail "digests differ"; }
}

# ------------------------------------------------------------------ load

# writer NAME [IN_FLIGHT]: writes NAME/000000001 and so on, each with a value made of its key, until
# interrupted. Acknowledged keys are in $T/NAME.acks.
writer() {
    local name=$1
    awk -v n="$name" 'BEGIN { for (i = 1; ; i++) printf "{\"key\":\"%s/%09d\",\"value\":\"of %s/%09d\"}\n", n, i, n, i }' |
        exec "$KVCTL" --endpoints "$cluster" import - --in-flight "${2:-1}" --gaps -o json \
            --ack-log "$T/$name.acks" >"$T/$name.json" 2>"$T/$name.log" &
    others+=("$!")
    writers+=("$!")
    names+=("$name")
}
declare -a writers=() names=()

stop_writers() {
    local w status
    for w in "${writers[@]}"; do kill -INT "$w"; done
    for w in "${writers[@]}"; do
        status=0
        wait "$w" || status=$?
        [[ $status -eq 130 || $status -eq 0 ]] || { cat "$T"/*.log >&2; fail "a writer ended with $status"; }
    done
    writers=()
}

# Every acknowledged key is there, every value is the one of its key, and none was written twice, although
# the writers repeated what they were in doubt about (X-A10).
check_acknowledged() {
    local acks missing name
    "$KVCTL" --endpoints "$cluster" --timeout 60s export "$T/all.jsonl" >/dev/null
    awk -F'"' '$8 != "of " $4 { print; bad = 1 } END { exit bad }' "$T/all.jsonl" || fail "values differ"
    awk -F'"' '{ print $4 }' "$T/all.jsonl" | LC_ALL=C sort >"$T/keys"
    for name in "${names[@]}"; do cat "$T/$name.acks"; done | LC_ALL=C sort -u >"$T/acks"
    "$KVCTL" --endpoints "$cluster" --timeout 60s get --prefix w -o json | grep -v '"version":"1"' >"$T/twice" || true
    [[ ! -s $T/twice ]] || { head "$T/twice" >&2; fail "$(wc -l <"$T/twice") keys were written twice"; }
    acks=$(wc -l <"$T/acks")
    missing=$(LC_ALL=C comm -23 "$T/acks" "$T/keys" | tee "$T/missing" | wc -l)
    say "acknowledged $acks, stored $(wc -l <"$T/keys"), acknowledged but missing $missing"
    say "longest time without acknowledgement of one writer: $(cat "$T"/*.json | field gap_ms | sort -n | tail -n 1) ms"
    [[ $acks -gt 0 ]] || fail "nothing was acknowledged"
    [[ $missing -eq 0 ]] || { head "$T/missing" >&2; fail "$missing acknowledged writes are missing"; }
}

# kill_under_load SECONDS WRITERS PERIOD: SIGKILL for a random node every PERIOD seconds.
kill_under_load() {
    local end=$((SECONDS + $1)) period=$3 i victim killed=0
    for id in n1 n2 n3; do start "$id"; done
    await_leader
    for ((i = 1; i <= $2; i++)); do writer "$(printf 'w%02d' "$i")"; done
    while [[ $SECONDS -lt $end ]]; do
        sleep "$period"
        victim=n$((RANDOM % 3 + 1))
        kill_hard "$victim"
        killed=$((killed + 1))
        sleep 0.3
        start "$victim"
    done
    say "killed $killed times"
    await_leader
    stop_writers
    check_acknowledged
    check_agreement
    for id in n1 n2 n3; do stop "$id"; done
}

# append_once_under_kills SECONDS KILLS: a load of appends in sessions on three nodes of log mode.
append_once_under_kills() {
    local i victim load status=0
    for id in n1 n2 n3; do start "$id" --model log --segment_bytes 1MiB; done
    await_leader
    "$KVCTL" --endpoints "$cluster" --timeout 20s bench append --session --clients 12 --batch 5 --value-size 40 \
        --duration "${1}s" --history "$T/history" -o json >"$T/bench.json" 2>"$T/bench.err" &
    load=$!
    others+=("$load")
    for ((i = 1; i <= $2; i++)); do
        sleep 1.7
        victim=n$((RANDOM % 3 + 1))
        [[ $((i % 2)) -eq 1 ]] && victim=$(leader) && [[ -z $victim ]] && victim=n1
        kill_hard "$victim"
        sleep 0.3
        start "$victim"
    done
    wait "$load" || status=$?
    same "$status" 0 "the load ended with"
    await_leader
    say "$(cat "$T/bench.json")"
    for id in n1 n2 n3; do
        "$KVCTL" --endpoints "127.0.0.1:$(port "$id")" log span >/dev/null
        "$KVCTL" --endpoints "127.0.0.1:$(port "$id")" --timeout 300s read 0 --count 100000000 >"$T/$id.log.all"
        say "$id: $("$WITNESS" "$T/history" --log "$T/$id.log.all")" || fail "the history and the log of $id differ"
    done
    same "$(field unknown <"$T/bench.json")" 0 "outcomes unknown:"
    for id in n1 n2 n3; do stop "$id"; done
}
