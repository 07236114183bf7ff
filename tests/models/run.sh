#!/usr/bin/env bash
# run.sh vote|founding|log|repair [--long]: searches the states of a model of docs/models/. The model must
# hold, and every mutant, which leaves a rule out, must be caught: a model that catches nothing proves
# nothing. --long: larger bounds, no mutants.
set -euo pipefail
models=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../docs/models")
model=${1:?usage: run.sh vote|founding|log|repair [--long]}
long=${2:-}
T=$(mktemp -d "${TMPDIR:-/tmp}/ledgerkv-model.XXXXXX")
trap 'rm -rf "$T"' EXIT
failed=0

die() {
    printf 'run.sh: %s\n' "$*" >&2
    exit 1
}

# tell WHAT VERDICT EXPECTED: a line, and how it ended if that is not what was expected.
tell() {
    local seconds=$((SECONDS - begun))
    if [[ $2 == "$3" ]]; then
        printf '%s: %s, %s s\n' "$1" "$2" "$seconds"
        return
    fi
    printf '%s: expected %s, found %s\n' "$1" "$3" "$2" >&2
    tail -n 40 "$T/out" >&2
    failed=1
}

# spin_run EXPECTED COMPILED-WITH RUN-WITH FLAG...: a Promela model.
spin_run() {
    local expected=$1 verdict='no verdict' begun=$SECONDS compiled ran optimised=-O2
    read -ra compiled <<<"$2"
    read -ra ran <<<"$3"
    shift 3
    (cd "$T" && spin -a "$@" "$models/$model.pml" >spin.out 2>&1) || die "$(cat "$T/spin.out")"
    # A mutant is caught among the first states: to compile takes longer than to search.
    [[ $expected == holds ]] || optimised=-O0
    # Every state is of interest, so no reduction; a vector of 512 bytes holds any of these.
    "${CC:-cc}" "$optimised" -w -DNOREDUCE -DVECTORSZ=512 "${compiled[@]}" -o "$T/pan" "$T/pan.c"
    (cd "$T" && ./pan -m1000000 -w22 "${ran[@]}" >out 2>&1) || true
    if grep -q 'errors: 0$' "$T/out" && ! grep -q 'max search depth too small' "$T/out"; then
        verdict="holds ($(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$T/out") states)"
    elif grep -q 'errors: [1-9]' "$T/out"; then
        verdict=caught
    fi
    [[ $expected == caught || $verdict != holds* ]] || expected=$verdict
    tell "$model $*" "$verdict" "$expected"
}

# search_run EXPECTED FLAG...: a model in C.
search_run() {
    local expected=$1 verdict='no verdict' begun=$SECONDS status=0 sources
    shift
    sources=("$models/$model.c" "$models/search.c")
    [[ $model != log ]] || sources+=("$models/log_recovery.c")
    "${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -Wno-type-limits -Werror "$@" -o "$T/search" "${sources[@]}"
    "$T/search" >"$T/out" 2>&1 || status=$?
    case $status in
    0) verdict="holds ($(sed -n '1s/.*: \([0-9]*\) states.*/\1/p' "$T/out") states)" ;;
    1) verdict=caught ;;
    esac
    [[ $expected == caught || $verdict != holds* ]] || expected=$verdict
    tell "$model $*" "$verdict" "$expected"
}

vote() {
    if [[ -n $long ]]; then
        # All states of three terms are too many: as many as are found in five minutes, as single bits.
        spin_run holds '-DSAFETY -DBITSTATE' '-w33 -Q5' -DTERMS=3
        return
    fi
    spin_run holds -DSAFETY '' -DTERMS=2
    local mutant
    for mutant in REPLY_BEFORE_DURABLE SECOND_VOTE CAMPAIGN_IN_SAME_TERM PREVOTE_COUNTS OLD_ROUNDS_COUNT \
        NO_PREVOTE NO_STICKINESS ADOPT_BEFORE_STICKINESS; do
        spin_run caught -DSAFETY '' "-D$mutant"
    done
}

founding() {
    if [[ -n $long ]]; then
        spin_run holds -DSAFETY "" -DWIPES=1
        spin_run holds -DNFAIR=4 '-a -f' -DWIPES=0 -DRESTARTS=0 -DDELAYED=1
        return
    fi
    spin_run holds -DSAFETY '' -DRESTARTS=1 -DDELAYED=0
    spin_run holds -DNFAIR=4 '-a -f' -DWIPES=0 -DRESTARTS=1 -DDELAYED=0
    spin_run caught -DSAFETY '' -DFOUND_WHEN_ALL_HEARD -DDELAYED=0
    spin_run caught -DSAFETY '' -DADOPT_BY_NAME -DDELAYED=0
    spin_run caught -DNFAIR=4 '-a -f' -DNO_ADOPTION -DWIPES=0 -DDELAYED=0
}

log() {
    if [[ -n $long ]]; then
        search_run holds
        search_run holds -DERRORS=0 -DIMAGES=0 -DAPPENDS=3
        return
    fi
    search_run holds -DERRORS=0
    search_run holds -DCRASHES=1
    local mutant
    for mutant in VOTE_IN_ONE_SLOT NO_SEGMENT_NUMBERS CUT_IN_PLACE HEADER_NOT_SYNCED DIRECTORY_NOT_SYNCED \
        TAIL_CONTINUED NO_MARKS MARK_TOO_EARLY SCAN_STOPS_AT_HOLE BAD_HEADER_DISCARDED NOTHING_REWRITTEN \
        SYNC_RETRIED IMAGE_NOT_TOLD; do
        search_run caught "-D$mutant"
    done
    search_run caught -DDROPPED_BEFORE_CUT -DAPPENDS=3
}

repair() {
    if [[ -n $long ]]; then
        search_run holds -DLENGTH=4
        return
    fi
    search_run holds
    local mutant
    for mutant in FILL_CUTS DONOR_IS_ANYBODY AMNESIA LOST_END_VOTES DISCARD_UNREAD NO_DISCARD; do
        search_run caught "-D$mutant"
    done
}

need_spin() {
    command -v spin >/dev/null || die "expected spin (./dev deps installs it), found none"
}

case $model in
vote)
    need_spin
    vote
    ;;
founding)
    need_spin
    founding
    ;;
log) log ;;
repair) repair ;;
*) die "expected vote, founding, log or repair, found \"$model\"" ;;
esac
exit "$failed"
