#!/usr/bin/env bash
# The same with a minute of kills.
SECONDS_OF_LOAD=60 exec bash "$(dirname "${BASH_SOURCE[0]}")/engine.sh"
