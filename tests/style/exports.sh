#!/usr/bin/env bash
# exports.sh SHARED STATIC HEADER...
# The libraries must offer exactly the functions that the public headers declare: one more is an
# accident that a stranger may come to depend on, one fewer does not link.
set -euo pipefail

shared=$1
static=$2
shift 2

# Without comments and macros; a static inline function ends in a brace and does not count.
declared=$(for header in "$@"; do cpp -w -P -fpreprocessed -dD "$header"; done |
    grep -v '^ *#' | tr '\n' ' ' | grep -oE '\blkv_[a-z0-9_]+ *\([^;{]*;' |
    grep -oE '^lkv_[a-z0-9_]+' | sort -u)

# offered NM_ARG...: names of defined global functions and objects, without versions and without the
# version nodes themselves, which nm lists as absolute.
offered() {
    nm --defined-only "$@" | awk 'NF == 3 && $2 ~ /^[TDBRVWi]$/ { sub(/@.*/, "", $3); print $3 }' | sort -u
}

status=0
for library in "$shared" "$static"; do
    options=(--extern-only)
    [[ $library == *.a ]] || options+=(--dynamic)
    if ! diff <(echo "$declared") <(offered "${options[@]}" "$library") >&2; then
        echo "^ $library: < declared only, > exported only" >&2
        status=1
    fi
done
exit "$status"
