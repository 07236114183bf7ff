# What the libraries are built on. Every one is a plain Debian package; `./dev deps` installs them.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(msgpack REQUIRED CONFIG) # the target is msgpackc

pkg_check_modules(uv REQUIRED IMPORTED_TARGET libuv>=1.44)
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson) # kvctl alone: JSON lines of an import

# xxhash is used inline from its header (XXH_INLINE_ALL): nothing is linked.
pkg_check_modules(xxhash_pc REQUIRED libxxhash)
add_library(lkv_xxhash INTERFACE)
target_include_directories(lkv_xxhash SYSTEM INTERFACE ${xxhash_pc_INCLUDE_DIRS})
add_library(PkgConfig::xxhash ALIAS lkv_xxhash)
