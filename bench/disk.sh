#!/usr/bin/env bash
# The engine on disk beside a plain loop with the same reads and records, and how long it takes to open.
#
#   disk.sh [KEYS [VALUE_SIZE]]     default: 200000 keys, values of 256 bytes
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

mkdir "$dir/maps"
"$(dirname "$KVCTL")/bench_disk" "$dir/maps" "${1:-200000}" "${2:-256}" | tee "$dir/figures"
record "\"bench\":\"disk\",\"rows\":[$(paste -sd, "$dir/figures")]"
