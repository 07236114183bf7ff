#!/usr/bin/env bash
# The store doing its job on real input: Debian's package index goes into three nodes while their
# leader is killed, and comes out again, complete.
#
#   run.sh [PACKAGES]      so many packages; default: all, about a million keys
#
# KVCTL names the program. Ends with 0 only if every key and value is right. Needs apt, python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kvctl=${KVCTL:-build/release/bin/kvctl}
packages=${1:-}
[[ -x $kvctl ]] || {
    echo "demo: no kvctl at $kvctl (./dev build release)" >&2
    exit 3
}
kvctl=$(realpath "$kvctl")

dir=$(mktemp -d "${TMPDIR:-/tmp}/ledgerkv-demo.XXXXXX")
declare -A pid=()
importer=

cleanup() {
    local p
    for p in "${pid[@]}" $importer; do
        kill -KILL "$p" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

bold='' plain='' green='' red=''
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
    bold=$'\e[1m' plain=$'\e[0m' green=$'\e[32m' red=$'\e[31m'
fi
step() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
say() { printf '   %s\n' "$*"; }
good() { printf '   %sok%s   %s\n' "$green" "$plain" "$*"; }
fail() {
    printf '   %sFAILED%s %s\n' "$red" "$plain" "$*" >&2
    local id
    for id in n1 n2 n3; do
        [[ ! -s $dir/$id.err ]] || { echo "--- last traces of $id" >&2; tail -n 5 "$dir/$id.err" >&2; }
    done
    exit 1
}
number() { sed ':a;s/\B[0-9]\{3\}\>/,&/;ta' <<<"$1"; }
# field NAME: of the one-line JSON object on stdin.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }
seconds_since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'; }

# ------------------------------------------------------------------ the input

step "1. The input: Debian's package index"
export LC_ALL=C.UTF-8
started=$(date +%s.%N)
index() { apt-cache dumpavail 2>/dev/null; }
command -v apt-cache >/dev/null || fail "apt-cache is missing: this demo reads Debian's package index"
if [[ -z $(index | head -c 1) ]]; then
    [[ $EUID -eq 0 ]] || fail "there is no package index: run apt-get update as root first"
    say "no index here yet: apt-get update"
    apt-get update -q >"$dir/apt.log" 2>&1 || { cat "$dir/apt.log" >&2; fail "apt-get update"; }
fi
# With a limit, the converter stops reading before apt-cache is done.
(set +o pipefail; index | python3 demo/packages.py ${packages:+"$packages"}) >"$dir/input.jsonl"
count=$(wc -l <"$dir/input.jsonl")
[[ $count -gt 0 ]] || fail "the package index is empty"
say "$(number "$count") keys like this one, $(du -h "$dir/input.jsonl" | cut -f1) in all:"
say "$(head -n 1 "$dir/input.jsonl" | cut -c1-88)"

# ------------------------------------------------------------------ three nodes

step "2. Three nodes, one process each"
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 10000))
        [[ " ${ports[*]:-} " == *" $port "* ]] && continue
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
}
ports=()
for _ in 1 2 3; do ports+=("$(free_port)"); done
peers="n1=127.0.0.1:${ports[0]},n2=127.0.0.1:${ports[1]},n3=127.0.0.1:${ports[2]}"
export KVCTL_ENDPOINTS="127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}"

start() {
    local id=$1 i=$((${1#n} - 1)) deadline=$((SECONDS + 20))
    : >"$dir/$id.out"
    "$kvctl" serve --id "$id" --dir "$dir/$id" --listen "127.0.0.1:${ports[i]}" --peers "$peers" \
        >"$dir/$id.out" 2>>"$dir/$id.err" &
    pid[$id]=$!
    until grep -q '^ready' "$dir/$id.out"; do
        kill -0 "${pid[$id]}" 2>/dev/null || fail "$id did not start"
        [[ $SECONDS -lt $deadline ]] || fail "$id is not ready after 20 s"
        sleep 0.05
    done
    say "$id: $(cat "$dir/$id.out")"
}
leader() { "$kvctl" status -o json 2>/dev/null | field leader; }
await_leader() {
    local deadline=$((SECONDS + 20)) id
    until id=$(leader) && [[ -n $id ]]; do
        [[ $SECONDS -lt $deadline ]] || fail "no leader after 20 s"
        sleep 0.1
    done
    echo "$id"
}
for id in n1 n2 n3; do start "$id"; done
first_leader=$(await_leader)
say "$first_leader leads"

# ------------------------------------------------------------------ import, and the murder

step "3. Import, and SIGKILL for the leader in the middle"
acks=$dir/acknowledged
begun=$(date +%s.%N)
"$kvctl" import "$dir/input.jsonl" --gaps --ack-log "$acks" -o json >"$dir/import.json" &
importer=$!
half=$((count / 2))
while kill -0 "$importer" 2>/dev/null; do
    [[ -e $acks && $(wc -l <"$acks") -ge $half ]] && break
    sleep 0.1
done
kill -0 "$importer" 2>/dev/null || fail "the import ended before half of the keys were written"
victim=$(await_leader)
kill -KILL "${pid[$victim]}"
wait "${pid[$victim]}" 2>/dev/null || true
unset "pid[$victim]"
[[ ! -t 2 ]] || printf '\r\e[K' >&2
say "SIGKILL for $victim, the leader, after $(number "$(wc -l <"$acks")") keys"
import_rc=0
wait "$importer" || import_rc=$?
importer=
[[ ! -t 2 ]] || printf '\r\e[K' >&2
[[ $import_rc -eq 0 ]] || { cat "$dir/import.json"; fail "kvctl import ended with $import_rc"; }
acknowledged=$(field acknowledged <"$dir/import.json")
gap=$(field gap_ms <"$dir/import.json")
elapsed=$(seconds_since "$begun")
good "$(number "$acknowledged") writes acknowledged in $elapsed s ($(number "$(awk -v n="$acknowledged" -v s="$elapsed" 'BEGIN { printf "%d", n / s }')")/s), each on two disks at least"
good "writes were refused for ${gap%.*} ms; $(leader) took over"
say "repeated by the import: $(field retries <"$dir/import.json"), of these with unknown outcome: $(field unknown <"$dir/import.json")"

# ------------------------------------------------------------------ the dead node returns

step "4. $victim returns and catches up"
begun=$(date +%s.%N)
start "$victim"
deadline=$((SECONDS + 60))
until "$kvctl" endpoint hash -o json >"$dir/hash.json" 2>"$dir/hash.err" &&
    [[ $(grep -c '"digest"' "$dir/hash.json") -eq 3 && $(field applied <"$dir/hash.json" | sort -u | wc -l) -eq 1 ]]; do
    [[ $SECONDS -lt $deadline ]] || { cat "$dir/hash.json" "$dir/hash.err" >&2; fail "$victim did not catch up in 60 s"; }
    sleep 0.2
done
good "caught up in $(seconds_since "$begun") s"

# ------------------------------------------------------------------ the proof

step "5. The proof"
wrong=0
"$kvctl" endpoint hash
if [[ $(field digest <"$dir/hash.json" | sort -u | wc -l) -eq 1 ]]; then
    good "the digests of the three nodes are equal"
else
    say "DIGESTS DIFFER"
    wrong=1
fi
"$kvctl" export "$dir/output.jsonl" --prefix /pkg/ >/dev/null
LC_ALL=C sort -o "$dir/input.sorted" "$dir/input.jsonl"
LC_ALL=C sort -o "$dir/output.sorted" "$dir/output.jsonl"
if cmp -s "$dir/input.sorted" "$dir/output.sorted"; then
    good "every key and value equals the input: $(number "$(wc -l <"$dir/output.sorted")") of $(number "$count")"
else
    say "INPUT AND OUTPUT DIFFER:"
    diff "$dir/input.sorted" "$dir/output.sorted" | head -n 10 | cut -c1-120 || true
    wrong=1
fi
"$kvctl" get --prefix /pkg/ --keys-only --timeout 60s | LC_ALL=C sort >"$dir/keys"
missing=$(LC_ALL=C sort -u "$acks" | comm -23 - "$dir/keys" | wc -l)
if [[ $missing -eq 0 ]]; then
    good "acknowledged but missing: 0"
else
    say "ACKNOWLEDGED BUT MISSING: $missing"
    wrong=1
fi
[[ $wrong -eq 0 ]] || fail "something differs, see above"

for id in n1 n2 n3; do kill -TERM "${pid[$id]}"; done
for id in n1 n2 n3; do
    wait "${pid[$id]}" || fail "$id ended with $? on SIGTERM"
    unset "pid[$id]"
done
printf '\n%sDone in %s s.%s No acknowledged write was lost.\n' "$bold" "$(seconds_since "$started")" "$plain"
