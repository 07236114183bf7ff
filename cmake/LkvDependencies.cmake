# What the libraries are built on. Every one is a plain Debian package; `./dev deps` installs them.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(msgpack REQUIRED CONFIG) # the target is msgpackc

pkg_check_modules(uv REQUIRED IMPORTED_TARGET libuv>=1.44)
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(glib IMPORTED_TARGET glib-2.0) # a hash map to compare with, in bench/ alone
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson) # kvctl alone: JSON lines of an import

# The engine "rocksdb" is a module of its own, loaded when it is asked for. Debian's package has no
# description for pkg-config.
option(LKV_ROCKSDB "Build the module of the engine rocksdb, where librocksdb-dev is installed" ON)
set(LKV_ROCKSDB_FOUND OFF)
if(LKV_ROCKSDB)
    find_path(ROCKSDB_INCLUDE_DIR rocksdb/c.h)
    find_library(ROCKSDB_LIBRARY rocksdb)
    if(ROCKSDB_INCLUDE_DIR AND ROCKSDB_LIBRARY)
        set(LKV_ROCKSDB_FOUND ON)
    else()
        message(STATUS "No engine rocksdb: librocksdb-dev is not installed")
    endif()
endif()

# xxhash is used inline from its header (XXH_INLINE_ALL): nothing is linked.
pkg_check_modules(xxhash_pc REQUIRED libxxhash)
add_library(lkv_xxhash INTERFACE)
target_include_directories(lkv_xxhash SYSTEM INTERFACE ${xxhash_pc_INCLUDE_DIRS})
add_library(PkgConfig::xxhash ALIAS lkv_xxhash)
