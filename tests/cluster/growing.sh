#!/usr/bin/env bash
# Rule 19: a node that was alone is given two blank peers, under kill -9 of any of them at any moment; every
# key that it acknowledged alone is there, and those of the three.
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

keys() { "$KVCTL" --endpoints "$cluster" --timeout 10s count --prefix "$1" 2>/dev/null; }
has_keys() { [[ $(keys "$1") == "$2" ]]; }
state_says() { { "$KVCTL" --endpoints "127.0.0.1:$(port "$1")" status 2>/dev/null || true; } | grep "$2" >/dev/null; }

# grow ID...: kills these while the three come together, then starts them again.
grow() {
    local id victims=("$@")
    for id in n1 n2 n3; do start "$id"; done
    for id in "${victims[@]}"; do
        sleep "0.0$((RANDOM % 10))"
        kill_hard "$id"
    done
    for id in "${victims[@]}"; do start "$id"; done
    await_leader
}

for victims in "" "n1" "n2" "n1 n2" "n3 n2" "n1 n2 n3" "n2 n3 n1 n1"; do
    say "alone, then three, killing: ${victims:-nobody}"
    rm -rf "$T"/n1 "$T"/n2 "$T"/n3
    start_alone n1
    for i in 1 2 3 4 5 6 7 8 9; do
        expect 0 "$KVCTL" --endpoints 127.0.0.1:7101 put "alone/$i" "$i"
    done
    kill_hard n1
    case $victims in
        *"n1 n1")
            say "it waits for all, and may be alone again meanwhile"
            start n1
            start n2
            within 10 state_says n1 "growing: 2 of 3 members seen" || fail "n1 does not say that it waits"
            expect 5 "$KVCTL" --endpoints 127.0.0.1:7101 --timeout 500ms put alone/no 1
            expect 5 "$KVCTL" --endpoints 127.0.0.1:7101 get --local alone/9 # not "no such key"
            kill_hard n1
            start_alone n1
            expect 0 "$KVCTL" --endpoints 127.0.0.1:7101 get alone/9
            kill_hard n1
            kill_hard n2
            ;;
    esac
    # shellcheck disable=SC2086 # a list
    case $victims in
        *"n1 n1") grow n1 ;;
        *) grow $victims ;;
    esac
    within 20 has_keys alone/ 9 || fail "$(keys alone/) of 9 keys are left"
    expect 0 "$KVCTL" --endpoints "$cluster" put three/1 1
    check_agreement
    kill_hard n1
    within 20 has_keys alone/ 9 || fail "without n1, $(keys alone/) of 9 keys are left"
    expect 0 "$KVCTL" --endpoints "$cluster" --timeout 10s put three/2 2
    start n1
    check_agreement
    for id in n1 n2 n3; do stop "$id"; done
done

say "M10, X-E4: the directory of a new member is wiped: it stays out and says what to do"
rm -rf "$T/n2"
for id in n1 n2 n3; do start "$id"; done
within 10 state_says n2 "cannot replace a member" || fail "n2 does not say what to do"
expect 0 "$KVCTL" --endpoints 127.0.0.1:7101 --timeout 10s put three/3 3
for id in n1 n3; do stop "$id"; done
kill_hard n2

say "X-E5: later changes need the option, and the refusal names it"
other="n1=127.0.0.1:7111,n2=127.0.0.1:7102,n3=127.0.0.1:7103"
expect 3 timeout 10 "$KVCTL" serve --id n1 --dir "$T/n1" --peers "$other"
said "7111"
said "7101"
said "moved on"
expect 3 timeout 10 "$KVCTL" serve --id x1 --dir "$T/n1" --peers "$peers"
