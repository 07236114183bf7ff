#!/usr/bin/env bash
# Awkward keys and values: one escaped line per key, and JSON export -> import is identical (X-G4).
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

K=$KVCTL
say "awkward keys into an embedded store"
put_hex() { "$K" --dir "$T/a" -x put "$1" "$2" >/dev/null; }
put_hex 0a 00                    # newline -> NUL
put_hex 00 ''                    # NUL -> nothing
put_hex ff ff00                  # no UTF-8
put_hex 09225c2f0d 5c6e          # tab " \ / CR -> backslash n
put_hex c3a9 e282ac              # two and three bytes
put_hex f09f9880 f09f9880        # four bytes
put_hex eda080 c080              # surrogate, overlong: no UTF-8
put_hex 2d2d616c6c 2d            # --all -> -
put_hex 40 406e6f                # @ -> @no
put_hex 7f 1b5b33316d            # DEL -> an escape sequence
put_hex ffff 01                  # behind which no prefix ends
count=$("$K" --dir "$T/a" count)
same "$count" 11 "count"

say "one line per key"
same "$("$K" --dir "$T/a" get --prefix '' | wc -l)" 11 "lines"
"$K" --dir "$T/a" get --prefix '' | grep -q $'^\\\\x00\t$' || fail "NUL is not escaped"
"$K" --dir "$T/a" get --prefix '' | grep -q $'^\\\\x7f\t\\\\x1b\[31m$' || fail "ESC is not escaped"
same "$("$K" --dir "$T/a" get --prefix '' --keys-only --desc -x | tail -n 1)" 00 "the last in descending order"
same "$("$K" --dir "$T/a" count -x --prefix ff)" 2 "keys under 0xff"

say "paging and both directions see the same keys"
"$K" --dir "$T/a" get --prefix '' --keys-only -x >"$T/up"
"$K" --dir "$T/a" get --prefix '' --keys-only -x --desc | tac | cmp - "$T/up" || fail "descending differs"
after=()
for ((i = 0; i < 11; i++)); do
    "$K" --dir "$T/a" get --prefix '' --keys-only -x --limit 1 "${after[@]}" 2>/dev/null >"$T/page"
    cat "$T/page" >>"$T/pages"
    after=(--after "$(cat "$T/page")")
done
cmp "$T/up" "$T/pages" || fail "page by page differs"

say "an export writes through devices and links, it does not replace them"
"$K" --dir "$T/a" export /dev/null >/dev/null
[[ -c /dev/null ]] || fail "/dev/null is no device any more"
: >"$T/target"
ln -s target "$T/link"
"$K" --dir "$T/a" export "$T/link" >/dev/null
[[ -L $T/link && -s $T/target ]] || fail "the link was replaced"

say "export, import, export"
"$K" --dir "$T/a" export "$T/a.jsonl" >/dev/null
same "$(wc -l <"$T/a.jsonl")" 11 "exported lines"
"$K" --dir "$T/b" import "$T/a.jsonl" >/dev/null
"$K" --dir "$T/b" export - | cmp - "$T/a.jsonl" || fail "the second export differs"
"$K" --dir "$T/a" -x export - | "$K" --dir "$T/c" import - >/dev/null
"$K" --dir "$T/c" export - | cmp - "$T/a.jsonl" || fail "the export through hexadecimal differs"
"$K" --dir "$T/a" get --prefix '' -o json | "$K" --dir "$T/d" import - >/dev/null
"$K" --dir "$T/d" export - | cmp - "$T/a.jsonl" || fail "answers of get cannot be imported"
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; [json.loads(line) for line in sys.stdin]' <"$T/a.jsonl" || fail "no JSON"
fi

say "bad lines are told by number and left out; the last line of a key wins"
cat >"$T/bad.jsonl" <<'LINES'
{"key":"k","value":"1"}
{"key":"k"
{"key":"","value":"x"}

{"key":"n","value":5}
{"key_b64":"?","value":"x"}
["k","v"]
{"key":"k","value":"2"}
LINES
expect 3 "$K" --dir "$T/e" import "$T/bad.jsonl"
for line in 2 3 5 6 7; do said "bad.jsonl:$line:"; done
same "$("$K" --dir "$T/e" get k)" 2 "the last line of k"
same "$("$K" --dir "$T/e" count)" 1 "count"
