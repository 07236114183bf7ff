#!/usr/bin/env bash
# Clients that ask for much and take nothing cost a bounded amount of memory, and none when they are
# closed; who reads beside them is served.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

start_alone n1
export KVCTL_ENDPOINTS=127.0.0.1:7101
head -c 100000 /dev/urandom >"$T/value"
for i in $(seq 12); do "$KVCTL" put "big/$i" "@$T/value" >/dev/null; done

python3 "$(dirname "${BASH_SOURCE[0]}")/clients_that_never_read.py" 7101 "${pid[n1]}" 250 55 >"$T/mib" &
hoarders=$!
others+=("$hoarders")
sleep 3
while kill -0 "$hoarders" 2>/dev/null; do
    "$KVCTL" put small 1 >/dev/null || fail "a write was not served beside them"
    "$KVCTL" get small >/dev/null || fail "a read was not served beside them"
    sleep 0.3
done
wait "$hoarders" || fail "the connections could not be made"
read -r largest last <"$T/mib"
say "resident MiB: at most $largest, at last $last"
# A sanitizer keeps what is freed.
if [[ -z ${ASAN_OPTIONS:-}${TSAN_OPTIONS:-} ]]; then
    [[ $largest -lt 150 ]] || fail "they cost $largest MiB"
    [[ $last -lt 60 ]] || fail "$last MiB are kept of what they cost"
fi
stop n1
