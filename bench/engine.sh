#!/usr/bin/env bash
# Both engines, and others' maps beside them in the same run: commands a second, memory for each key, ranges, images,
# pauses.
#
#   engine.sh [KEYS [VALUE_SIZE [KEYS_ON_DISK]]]     default: 1000000 keys, values of 256 bytes, 200000 keys on disk
#
# The last rows are ratios of the processor's time for one operation, which another load on the machine changes least:
# 50 % means that ours takes twice as long. The engine on disk also writes its history and looks up what was there before;
# "a plain loop" does the same reads and writes of the same records, "rocksdb" puts and gets the values alone.
# shellcheck source=bench/support/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/nodes.sh"

bin=$(dirname "$KVCTL")
keys=${1:-1000000} size=${2:-256} on_disk=${3:-200000}
[[ -x $bin/bench_maps ]] || die "others' maps were not built: libglib2.0-dev and librocksdb-dev are needed (./dev bench engine installs them)"
mkdir "$dir/ours" "$dir/maps"
{
    "$bin/bench_maps" "$dir/maps" "$keys" "$size"
    "$bin/bench_engine" "$keys" "$size" "$dir"
    "$bin/bench_disk" "$dir/ours" "$on_disk" "$size"
} | tee "$dir/figures"
# ratio NAME BENCH FIGURE THEIRS
ratio() {
    local ours theirs
    ours=$(grep "\"bench\":\"$2\",\"figure\":\"$3\"," "$dir/figures" | head -n 1 | field cpu_ns_per_op)
    theirs=$(grep "\"bench\":\"maps\",\"figure\":\"$4\"," "$dir/figures" | field cpu_ns_per_op)
    awk -v name="$1" -v ours="$ours" -v theirs="$theirs" 'BEGIN {
        printf "{\"bench\":\"engine\",\"figure\":\"%s\",\"value\":%.1f,\"unit\":\"percent\"}\n", name, 100 * theirs / ours }'
}
{
    ratio memory_inserts_by_hash_map engine inserts hash_map_inserts
    ratio memory_overwrites_by_hash_map engine overwrites hash_map_overwrites
    ratio memory_gets_by_hash_map engine gets_copied hash_map_gets
    ratio disk_inserts_by_rocksdb disk inserts rocksdb_inserts
    ratio disk_overwrites_by_rocksdb disk overwrites rocksdb_overwrites
    ratio disk_gets_by_rocksdb disk gets rocksdb_gets
} | tee "$dir/ratios"
record "\"bench\":\"engine\",\"rows\":[$(cat "$dir/figures" "$dir/ratios" | paste -sd, -)]"
