#!/usr/bin/env bash
# What 10,000 watches cost the puts of a whole node: those that nothing is written to, and those of which each put meets one.
#
#   watch.sh [PUTS [WATCHES]]     default: 200000 puts, 10000 watches
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

"$(dirname "$KVCTL")/bench_watch" "$dir/n1" "${1:-200000}" "${2:-10000}" | tee "$dir/figures"
record "\"bench\":\"watch\",\"rows\":[$(paste -sd, "$dir/figures")]"
