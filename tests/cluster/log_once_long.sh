#!/usr/bin/env bash
# The same as log_once.sh for a minute.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

append_once_under_kills 60 25
