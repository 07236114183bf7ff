#!/usr/bin/env bash
# Seeds that nobody has played before: named by the commit, so that every commit gets its own, and the
# same ones each time. Each is played twice.
#
#   fresh.sh SIMULATE COUNT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
name=$(git rev-parse HEAD 2>/dev/null) || name=release
echo "seeds named $name"
exec "$1" --named "$name" --count "$2" --twice --jobs 1
