# The language, the warnings and the nets (sanitizers, fuzzing, coverage) that hold for every target.

option(LKV_WERROR "Treat warnings as errors" OFF)
set(LKV_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread or empty")
option(LKV_FUZZ "Instrument for libFuzzer and build tests/fuzz (clang only)" OFF)
option(LKV_COVERAGE "Instrument for gcovr" OFF)

# gnu11, not c11: strict c11 hides the POSIX types that uv.h needs.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Only what the public header marks leaves the library: the version script alone would not help the
# static one, whose hidden symbols are made local after linking.
set(CMAKE_C_VISIBILITY_PRESET hidden)

add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wswitch-enum -Wvla
                    -fno-common)
if(CMAKE_C_COMPILER_ID STREQUAL Clang)
    # gcc, in the dev preset, checks this already, and without taking every enum passed as an int for
    # a change of sign.
    add_compile_options(-Wno-sign-conversion)
endif()
if(LKV_WERROR)
    add_compile_options(-Werror)
endif()

if(LKV_SANITIZE)
    # Without no-sanitize-recover, UBSan prints and goes on, and the test passes.
    set(lkv_sanitize_flags -fsanitize=${LKV_SANITIZE} -fno-sanitize-recover=all)
    add_compile_options(${lkv_sanitize_flags} -fno-omit-frame-pointer)
    add_link_options(${lkv_sanitize_flags})
endif()
if(LKV_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
    add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(LKV_COVERAGE)
    # Atomic counters: several threads of one node update the same file's counts.
    add_compile_options(--coverage -fprofile-update=atomic)
    add_link_options(--coverage)
endif()

find_program(LKV_CCACHE ccache)
if(LKV_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${LKV_CCACHE})
endif()
