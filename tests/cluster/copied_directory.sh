#!/usr/bin/env bash
# Rule 17, S17: a copied or restored directory is refused, at its own start and by the members, whoever was
# restarted since; and the text says what brings the right one back.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

put() { "$KVCTL" --endpoints "$cluster" --timeout 10s put "$1" "$2" >"$T/stdout" 2>"$T/stderr"; }
refused() { grep -q "$1" "$T/n3.err"; }

for id in n1 n2 n3; do start "$id"; done
await_leader
put k 1 || fail "$(cat "$T/stderr")"
stop n3
cp -a "$T/n3" "$T/copy"
cp -a "$T/n3" "$T/backup"

say "a copy does not start, and nothing of it is changed"
cp "$T/copy/identity" "$T/before"
expect 3 timeout 10 "$KVCTL" serve --id n3 --dir "$T/copy" --peers "$peers"
said "was copied, restored or moved"
said "moved on"
cmp "$T/before" "$T/copy/identity" || fail "a refused start wrote"
[[ ! -e $T/copy/seen.new ]] || fail "a refused start wrote"

say "a copy that runs all the same: the members refuse the original, also after their restart"
start n3
put k 2 || fail "$(cat "$T/stderr")"
stop n3
mv "$T/n3" "$T/original"
mv "$T/copy" "$T/n3"
start n3 --moved on
put k 3 || fail "$(cat "$T/stderr")"
stop n3
mv "$T/n3" "$T/copy"
mv "$T/original" "$T/n3"
for id in n1 n2; do
    kill_hard "$id"
    start "$id"
done
await_leader
: >"$T/n3.err"
start n3
within 10 refused "was seen" || fail "n3 takes part"
refused "moved=on" || fail "the refusal does not say what helps"
put k 4 || fail "$(cat "$T/stderr")"

say "with the copy gone the option brings it back"
kill_hard n3
start n3 --moved on
check_agreement
stop n3
start n3
check_agreement

say "a backup in the place of the directory is refused too"
stop n3
rm -rf "$T/n3"
cp -a "$T/backup" "$T/n3"
expect 3 timeout 10 "$KVCTL" serve --id n3 --dir "$T/n3" --peers "$peers"
said "was copied, restored or moved"
put k 5 || fail "$(cat "$T/stderr")"
for id in n1 n2; do stop "$id"; done
