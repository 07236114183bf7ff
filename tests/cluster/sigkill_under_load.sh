#!/usr/bin/env bash
# Every acknowledged write is readable after SIGKILL of random nodes, and the three end up equal.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

kill_under_load 10 4 2
