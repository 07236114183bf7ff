#!/usr/bin/env bash
# An installed tree, as a stranger has it: programs in C and C++ with pkg-config and with CMake, against the
# shared and the static library, also after the tree was moved; kvctl; the manual (X-H3).
# shellcheck source=tests/cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build=$(realpath "$(dirname "$KVCTL")/..")
sources=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
if [[ ! -e $build/libledgerkv.a ]]; then
    skip "this tree is instrumented, and is not installed"
    exit 0
fi
cmake --install "$build" --prefix "$T/first" >"$T/install.log" || { cat "$T/install.log" >&2; fail "install"; }
mv "$T/first" "$T/tree"
lib=$(dirname "$(find "$T/tree" -name libledgerkv.a)")
export PKG_CONFIG_PATH=$lib/pkgconfig
cc=(cc -std=c11 -Wall -Wextra -pedantic -D_GNU_SOURCE)

say "what is there"
for file in include/ledgerkv.h include/ledgerkv_kv.h include/ledgerkv_log.h include/ledgerkv_errors.h bin/kvctl; do
    [[ -e $T/tree/$file ]] || fail "no $file"
done
same "$(find "$T/tree/include" -type f | wc -l)" 4 "headers:"
same "$("$T/tree/bin/kvctl" version)" "kvctl $(pkg-config --modversion ledgerkv)"
if [[ -e $build/man ]]; then
    [[ -e $T/tree/share/man/man1/kvctl.1 && -e $T/tree/share/man/man3/lkv_put.3 ]] || fail "no manual"
    if command -v man >/dev/null; then
        # Not by a pipe: a grep that has seen enough ends man with SIGPIPE, and that is the pipe's exit code.
        man -M "$T/tree/share/man" lkv_log_tail >"$T/page" 2>"$T/page.err" || fail "man: $(cat "$T/page.err")"
        grep -q 'lkv_log_tail(' "$T/page" || fail "man lkv_log_tail shows nothing"
    fi
fi

if [[ -e $build/libledgerkv-rocksdb.so ]]; then
    say "the engine rocksdb is found beside the library"
    start_process alone "$T/tree/bin/kvctl" serve --dir "$T/alone" --engine rocksdb --listen 127.0.0.1:7109
    same "$("$T/tree/bin/kvctl" --endpoints 127.0.0.1:7109 status -o json | field engine)" rocksdb
    stop alone
    mv "$lib/libledgerkv-rocksdb.so" "$T/module"
    expect 3 "$T/tree/bin/kvctl" serve --dir "$T/alone" --engine rocksdb --listen 127.0.0.1:7109
    said 'librocksdb'
    mv "$T/module" "$lib/libledgerkv-rocksdb.so"
fi

say "every example, with pkg-config and the shared library"
# shellcheck disable=SC2046 # words
for source in "$sources"/examples/*.c; do
    name=$(basename "$source" .c)
    more=
    [[ $name != uv_* ]] || more=libuv
    "${cc[@]}" -Werror "$source" $(pkg-config --cflags --libs ledgerkv $more) -o "$T/$name" || fail "$name does not build"
done
export LD_LIBRARY_PATH=$lib
same "$("$T/hello" "$T/data")" "hello, for the 1. time"
"$T/three_nodes" "$T/three" 7101 >"$T/out" || fail "three_nodes: exit code $?"
same "$(grep -c 'reads green' "$T/out")" 2
grep -q "libledgerkv.so.0 => $lib" <<<"$(ldd "$T/hello")" || fail "another library: $(ldd "$T/hello")"

say "the static library"
# shellcheck disable=SC2046 # words
"${cc[@]}" "$sources/examples/hello.c" $(pkg-config --static --cflags --libs ledgerkv | sed 's/-lledgerkv/-l:libledgerkv.a/') \
    -o "$T/hello_static" || fail "hello does not build with the static library"
! grep -q libledgerkv <<<"$(ldd "$T/hello_static")" || fail "not static: $(ldd "$T/hello_static")"
env -u LD_LIBRARY_PATH "$T/hello_static" "$T/data" >"$T/out"
same "$(cat "$T/out")" "hello, for the 2. time"

say "C++"
cat >"$T/program.cc" <<'EOT'
#include <cstdio>
#include <ledgerkv.h>
int main(int, char **argv) {
    lkv_options *options = lkv_options_new();
    lkv *db = NULL;
    lkv_kv item;
    lkv_msg *answer = NULL;
    int rc = lkv_options_set(options, "dir", argv[1]);
    rc = rc == 0 ? lkv_open(&db, NULL, options, NULL) : rc;
    rc = rc == 0 ? lkv_get(db, LKV_STR("greeting"), LKV_LOCAL, LKV_DEFAULT, &answer) : rc;
    if (rc == 0 && lkv_msg_kv(answer, 0, &item)) {
        std::printf("%.*s\n", static_cast<int>(item.value.size), static_cast<const char *>(item.value.data));
    }
    lkv_msg_free(answer);
    lkv_options_free(options);
    return lkv_close(db, 0) != 0 || rc != 0;
}
EOT
if command -v g++ >/dev/null; then
    # shellcheck disable=SC2046 # words
    g++ -std=c++98 -pedantic -Wall -Wextra -Werror "$T/program.cc" $(pkg-config --cflags --libs ledgerkv) -o "$T/program" ||
        fail "no C++ program"
    same "$("$T/program" "$T/data")" hello
else
    skip "no g++"
fi

say "CMake, both libraries"
mkdir "$T/consumer"
cp "$sources/examples/hello.c" "$T/consumer"
cat >"$T/consumer/CMakeLists.txt" <<'EOT'
cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(ledgerkv 0.1 REQUIRED)
add_executable(hello_shared hello.c)
target_link_libraries(hello_shared PRIVATE ledgerkv::ledgerkv)
add_executable(hello_archive hello.c)
target_link_libraries(hello_archive PRIVATE ledgerkv::static)
EOT
{
    cmake -S "$T/consumer" -B "$T/consumer/build" -DCMAKE_PREFIX_PATH="$T/tree"
    cmake --build "$T/consumer/build"
} >"$T/cmake.log" 2>&1 || { cat "$T/cmake.log" >&2; fail "no consumer with CMake"; }
same "$("$T/consumer/build/hello_shared" "$T/data")" "hello, for the 3. time"
same "$(env -u LD_LIBRARY_PATH "$T/consumer/build/hello_archive" "$T/data")" "hello, for the 4. time"
sed -i 's/ledgerkv 0.1 /ledgerkv 9.1 /' "$T/consumer/CMakeLists.txt"
! cmake -S "$T/consumer" -B "$T/consumer/other" -DCMAKE_PREFIX_PATH="$T/tree" >"$T/cmake.log" 2>&1 ||
    fail "CMake takes this for version 9.1"

say "README's first program"
sed -n '/^#include <ledgerkv.h>/,/^}/p' "$sources/README.md" >"$T/readme.c"
# shellcheck disable=SC2046 # words
"${cc[@]}" -Werror "$T/readme.c" $(pkg-config --cflags --libs ledgerkv) -o "$T/readme" || fail "README's program does not build"
mkdir "$T/empty" "$T/blocked"
same "$(cd "$T/empty" && "$T/readme")" "hello at revision 2"
: >"$T/blocked/data"
! (cd "$T/blocked" && "$T/readme") >"$T/out" 2>"$T/err" || fail "README's program says nothing of a directory that is a file"
[[ -s $T/err ]] || fail "README's program fails in silence"
