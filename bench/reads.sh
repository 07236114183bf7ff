#!/usr/bin/env bash
# One reader, each way to read: at the leader, at a follower, and through a client of either.
#
#   reads.sh [READS]     default: 5000 of each
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

"$(dirname "$KVCTL")/bench_reads" "$dir" "${1:-5000}" | tee "$dir/figures"
record "\"bench\":\"reads\",\"rows\":[$(paste -sd, "$dir/figures")]"
