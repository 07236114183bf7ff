#!/usr/bin/env bash
# The memory engine alone: commands a second, memory for each key, ranges, images on the disk.
#
#   engine.sh [KEYS [VALUE_SIZE]]     default: 1000000 keys, values of 256 bytes
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

"$(dirname "$KVCTL")/bench_engine" "${1:-1000000}" "${2:-256}" "$dir" | tee "$dir/figures"
record "\"bench\":\"engine\",\"rows\":[$(paste -sd, "$dir/figures")]"
