#!/usr/bin/env bash
# Appends in sessions while random nodes are killed: none ends as unknown although leaders go, and the log has
# the records of each exactly once, side by side, where the answer says, in the order of real time
# (C1, C6, X-A10).
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

append_once_under_kills 12 5
