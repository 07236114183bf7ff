#!/usr/bin/env bash
# The clients' protocol alone, without consensus or disk.
#
#   rpc.sh [OPERATIONS [VALUE_SIZE]]     default: 1000000 puts, values of 256 bytes
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

"$(dirname "$KVCTL")/bench_rpc" "${1:-1000000}" "${2:-256}" | tee "$dir/figures"
record "\"bench\":\"rpc\",\"rows\":[$(paste -sd, "$dir/figures")]"
