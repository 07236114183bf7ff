#!/usr/bin/env bash
# The same for a minute: 16 writers, SIGKILL of a random node every 3 s.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

kill_under_load 60 16 3
