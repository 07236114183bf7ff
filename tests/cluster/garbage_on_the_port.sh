#!/usr/bin/env bash
# Garbage on a node's port (N1-N5, N10): the connection is closed, memory stays flat, others are served.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for id in n1 n2 n3; do start "$id"; done
await_leader
victim=$(leader)
KVCTL_ENDPOINTS=127.0.0.1:$(port "$victim")
export KVCTL_ENDPOINTS
rss_kb() { awk '/^VmRSS/ { print $2 }' "/proc/${pid[$victim]}/status"; }

"$KVCTL" put before 1 >/dev/null
rss=$(rss_kb)
# Garbage in all shapes at once, while a client goes on; says what did not end as it must.
python3 "$(dirname "${BASH_SOURCE[0]}")/garbage.py" "$(port "$victim")" >"$T/garbage" 2>&1 &
garbage=$!
others+=("$garbage")
served=0
while kill -0 "$garbage" 2>/dev/null; do
    "$KVCTL" --timeout 3s put during "$served" >/dev/null || fail "a client was not served beside the garbage"
    served=$((served + 1))
    sleep 0.2
done
wait "$garbage" || { cat "$T/garbage" >&2; fail "garbage was not refused"; }
cat "$T/garbage"
say "$served writes were served meanwhile"

say "memory: $rss kB before, $(rss_kb) kB after"
[[ $(rss_kb) -lt $((rss + 20000)) ]] || fail "memory grew by more than 20 MB"
same "$(leader "$cluster")" "$victim" "the leader is now"
expect 0 "$KVCTL" get during
same "$(cat "$T/stdout")" "$((served - 1))"
check_agreement
for id in n1 n2 n3; do stop "$id"; done
