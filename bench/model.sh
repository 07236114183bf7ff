#!/usr/bin/env bash
# The state machine with history: writes, reads of old revisions, compaction, counters, transactions.
#
#   model.sh [KEYS [VALUE_SIZE]]     default: 1000000 keys, values of 256 bytes
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

"$(dirname "$KVCTL")/bench_model" "${1:-1000000}" "${2:-256}" | tee "$dir/figures"
record "\"bench\":\"model\",\"rows\":[$(paste -sd, "$dir/figures")]"
