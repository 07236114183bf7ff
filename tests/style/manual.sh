#!/usr/bin/env bash
# manual.sh MANUAL_DIR INCLUDE_DIR KVCTL
# The manual pages are well-formed, and name every function, error and option, and every command of kvctl.
set -euo pipefail

manual=$1
include=$2
kvctl=$3
status=0
complain() {
    echo "$*" >&2
    status=1
}

library=$manual/man3/ledgerkv.3
command=$manual/man1/kvctl.1
if command -v mandoc >/dev/null; then
    # Long input lines are the header's.
    mandoc -Tlint -W style "$library" "$command" | grep -v 'input text line longer' >&2 && status=1
else
    echo "SKIPPED, LOUDLY: no mandoc" >&2
fi
for page in "$library" "$command"; do
    said=$(groff -man -ww -z -Tutf8 "$page" 2>&1) || complain "groff: $page"
    [[ -z $said ]] || complain "$page: $said"
done

# Without roff's escapes, as a reader sees the words.
words() { sed 's/\\-/-/g; s/\\f[A-Z]//g; s/\\&//g; s/\\e/\\/g' "$1"; }
has() { # PAGE WORD
    grep -qwF -e "$2" <(words "$1") || complain "$(basename "$1") says nothing of $2"
}
while read -r name; do
    grep -qF "$name(" <(words "$library") || complain "ledgerkv.3 does not declare $name"
    [[ -e $manual/man3/$name.3 ]] || complain "no page $name.3"
done < <(for header in "$include"/ledgerkv*.h; do cpp -w -P -fpreprocessed -dD "$header"; done | grep -v '^ *#' | tr '\n' ' ' |
    grep -oE '\blkv_[a-z0-9_]+ *\([^;{]*;' | grep -oE '^lkv_[a-z0-9_]+' | sort -u)
while read -r name; do
    has "$library" "$name"
done < <(grep -oE 'X\(LKV_E[A-Z]+' "$include/ledgerkv_errors.h" | cut -c 3-)
while read -r name; do
    has "$library" "$name"
    has "$command" "$name"
done < <("$kvctl" serve --help | sed -n '/^Options of the node/,/^$/s/^  --\([a-z_]*\) .*/\1/p')
while read -r name; do
    grep -qxF ".SS $name" <(words "$command") || complain "kvctl.1 says nothing of $name"
done < <("$kvctl" help | sed -n 's/^  \([a-z][a-z ]*[a-z]\)   *[A-Z].*/\1/p')
exit "$status"
