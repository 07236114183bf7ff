#!/usr/bin/env bash
# header.sh INCLUDE_DIR VERSION
# The installed headers, as strangers use them: alone, in every C and C++ there is, with the strictest
# warnings; with the version of the project; within 100 columns; and with a comment for every function.
set -euo pipefail

include=$1
version=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
complain() {
    echo "$*" >&2
    status=1
}

cat >"$folder/program.c" <<'EOT'
#include <ledgerkv.h>
int main(void) {
    struct lkv_bytes bytes = LKV_STR("text");
    struct lkv_record record;
    record.data = bytes;
    return record.data.size == 4 && lkv_outcome(LKV_EBUSY) == LKV_NOT_DONE ? 0 : 1;
}
EOT
cp "$folder/program.c" "$folder/program.cc"
parts=("$include"/ledgerkv*.h)
for part in "${parts[@]}"; do # each also by itself
    echo "#include <$(basename "$part")>" >"$folder/$(basename "$part" .h).part.c"
done

strict=(-pedantic -Wall -Wextra -Wshadow -Wconversion -Werror -fsyntax-only -I"$include")
try() {
    command -v "$1" >/dev/null || { echo "SKIPPED, LOUDLY: no $1" >&2; return 0; }
    "$@" || complain "^ $*"
}
for standard in c99 c11 c17 gnu11; do
    for compiler in gcc clang-14; do
        try "$compiler" -std=$standard -Wstrict-prototypes "${strict[@]}" "$folder/program.c"
        try "$compiler" -std=$standard "${strict[@]}" "$folder"/*.part.c
    done
done
for standard in c++98 c++11 c++17 c++20; do
    for compiler in g++ clang++-14; do
        try "$compiler" -std=$standard "${strict[@]}" "$folder/program.cc"
    done
done

header=$include/ledgerkv.h
grep -q "^#define LKV_VERSION \"$version\"$" "$header" || complain "LKV_VERSION is not $version"
awk 'length > 100 { print FILENAME ":" FNR ": " length " columns"; bad = 1 } END { exit bad }' \
    "${parts[@]}" >&2 || status=1
# A declaration follows its comment, or another one under the same comment.
awk '
    /^LKV_API/ && before !~ /\*\/$|;$|^\/\*/ { print FILENAME ":" FNR ": no comment: " $0; bad = 1 }
    { before = $0 }
    END { exit bad }' "${parts[@]}" >&2 || status=1
exit "$status"
