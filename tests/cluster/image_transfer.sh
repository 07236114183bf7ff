#!/usr/bin/env bash
# L17, P4: an image of 12 MB on a path that breaks after every 3 MB, to a node that is killed in the middle:
# what has arrived is not sent again.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
peers=${peers/7103/7203} # n3 is reached through the proxy
cluster=${cluster/7103/7203}
options=(--segment_bytes 1MiB --image_log_bytes 2MiB --keep_entries 5 --trace info)
proxied() { cut -d' ' -f"$1" "$T/report"; }
image_bytes() { find "$T/$1/image" -name '*.img' -printf '%s\n' | sort -n | tail -n 1; }
has_bytes() { [[ $(find "$T/n3/image" -name 'incoming-*' -printf '%s\n') -ge $1 ]]; }

python3 "$(dirname "${BASH_SOURCE[0]}")/cutting_proxy.py" 7203 7103 8000000 3000000 "$T/report" >"$T/proxy.out" &
others+=("$!")
within 10 grep -q ready "$T/proxy.out" || fail "no proxy"
for id in n1 n2 n3; do start "$id" "${options[@]}"; done
await_leader
"$K" --endpoints "$cluster" put first 1 >/dev/null
stop n3
head -c 600000 /dev/urandom >"$T/value"
for i in $(seq 20); do "$K" --endpoints "$cluster" put "big/$i" "@$T/value" >/dev/null; done
await_leader
within 10 test "$(image_bytes "$(leader)")" -gt 9000000 || fail "no large image"

say "killed when half of it has arrived"
start n3 "${options[@]}"
within 30 has_bytes 6000000 || fail "half an image did not arrive in 30 s"
kill_hard n3
start n3 "${options[@]}"
check_agreement
grep -q image-resumed "$T/n3.err" || fail "it began anew"
expect 0 "$K" --endpoints 127.0.0.1:7103 --timeout 10s get big/20
read -r bytes cuts <"$T/report"
whole=$(image_bytes "$(leader)")
say "an image of $whole bytes, $bytes were sent, $cuts cuts"
[[ $cuts -ge 3 ]] || fail "only $cuts cuts"
[[ $bytes -lt $((whole * 17 / 10)) ]] || fail "$bytes bytes were sent"
for id in n1 n2 n3; do stop "$id"; done
