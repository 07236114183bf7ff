# The rooms and what is made of them.

# Each room's objects, for the shared and the static library.
set_property(GLOBAL PROPERTY LKV_OBJECTS "")

# What is installed: the first includes all others.
set(LKV_PUBLIC_HEADERS lib/ledgerkv.h lib/ledgerkv_kv.h lib/ledgerkv_log.h base/ledgerkv_errors.h)

# Strangers, and cli/ like any stranger, include <ledgerkv.h> and its parts: the build tree
# offers the files in one folder as an installation does. Links, so that they are never stale.
function(lkv_public_headers)
    set(include_dir ${PROJECT_BINARY_DIR}/include)
    file(MAKE_DIRECTORY ${include_dir})
    foreach(header IN LISTS LKV_PUBLIC_HEADERS)
        get_filename_component(name ${header} NAME)
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${header} ${include_dir}/${name} SYMBOLIC)
    endforeach()
endfunction()

# A static library of the named folders' *.c; an empty interface while there is no file.
function(lkv_static name)
    cmake_parse_arguments(arg "" "" "FOLDERS;DEPENDS" ${ARGN})
    list(TRANSFORM arg_FOLDERS REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/\\1/*.c" OUTPUT_VARIABLE globs)
    file(GLOB sources CONFIGURE_DEPENDS ${globs})
    if(sources)
        add_library(${name} STATIC ${sources})
        set(scope PUBLIC)
        set_property(GLOBAL APPEND PROPERTY LKV_OBJECTS $<TARGET_OBJECTS:${name}>)
    else()
        add_library(${name} INTERFACE)
        set(scope INTERFACE)
    endif()
    target_include_directories(${name} ${scope} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include)
    target_link_libraries(${name} ${scope} ${arg_DEPENDS})
endfunction()

function(lkv_room name)
    cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
    lkv_static(${name} FOLDERS ${name} DEPENDS ${arg_DEPENDS})
endfunction()

function(lkv_library)
    set(third_party PkgConfig::uv PkgConfig::isal msgpackc Threads::Threads)
    lkv_static(ledgerkv_internal FOLDERS lib lib/uv DEPENDS kv raft log base ${third_party})

    get_target_property(type ledgerkv_internal TYPE)
    if(NOT type STREQUAL STATIC_LIBRARY)
        return() # no lib/*.c yet: nothing a stranger could link
    endif()
    get_property(objects GLOBAL PROPERTY LKV_OBJECTS)
    lkv_shared_library("${objects}" "${third_party}")
    lkv_static_library("${objects}" "${third_party}")
endfunction()

function(lkv_shared_library objects third_party)
    set(map ${PROJECT_SOURCE_DIR}/lib/ledgerkv.map)
    add_library(ledgerkv SHARED ${objects})
    add_library(ledgerkv::ledgerkv ALIAS ledgerkv)
    set_target_properties(ledgerkv PROPERTIES
        LINKER_LANGUAGE C
        VERSION ${PROJECT_VERSION}
        SOVERSION 0
        LINK_DEPENDS ${map})
    target_include_directories(ledgerkv INTERFACE
        $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(ledgerkv PRIVATE ${third_party})
    target_link_options(ledgerkv PRIVATE LINKER:--version-script=${map})
    if(NOT LKV_SANITIZE)
        # A missing symbol is our fault at our link, not a stranger's at theirs. (clang leaves the
        # sanitizer's run-time undefined in shared libraries, so not there.)
        target_link_options(ledgerkv PRIVATE LINKER:-z,defs)
    endif()
endfunction()

# All rooms in one relocatable object whose hidden symbols become local: a program that links
# libledgerkv.a may have its own queue_push or raft_step.
function(lkv_static_library objects third_party)
    if(LKV_SANITIZE)
        return() # nothing in the sanitizer trees links it
    endif()
    set(object ${PROJECT_BINARY_DIR}/ledgerkv_static.o)
    set(archive ${PROJECT_BINARY_DIR}/libledgerkv.a)
    add_custom_command(
        OUTPUT ${archive}
        COMMAND ${CMAKE_LINKER} -r -o ${object} ${objects}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${object}
        COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
        COMMAND ${CMAKE_AR} rcs ${archive} ${object}
        DEPENDS ${objects}
        COMMAND_EXPAND_LISTS VERBATIM
        COMMENT "Linking C static library libledgerkv.a, internals hidden")
    add_custom_target(ledgerkv_static_archive ALL DEPENDS ${archive})
    add_library(ledgerkv_static INTERFACE)
    add_dependencies(ledgerkv_static ledgerkv_static_archive)
    target_include_directories(ledgerkv_static INTERFACE ${PROJECT_BINARY_DIR}/include)
    target_link_libraries(ledgerkv_static INTERFACE ${archive} ${third_party})
endfunction()

# libledgerkv-rocksdb.so: beside the library, found by it (kv/ordered.c). It needs none of ours.
function(lkv_rocksdb)
    if(NOT LKV_ROCKSDB_FOUND)
        return()
    endif()
    add_library(ledgerkv-rocksdb MODULE ${PROJECT_SOURCE_DIR}/kv/rocksdb/module.c)
    target_include_directories(ledgerkv-rocksdb PRIVATE ${PROJECT_SOURCE_DIR})
    target_include_directories(ledgerkv-rocksdb SYSTEM PRIVATE ${ROCKSDB_INCLUDE_DIR})
    target_link_libraries(ledgerkv-rocksdb PRIVATE ${ROCKSDB_LIBRARY})
    set_target_properties(ledgerkv-rocksdb PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()

# kvctl and the examples see the public headers only: no include root, no internal target.
function(lkv_command)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.c)
    if(NOT sources OR NOT TARGET ledgerkv)
        return()
    endif()
    add_executable(kvctl ${sources})
    target_link_libraries(kvctl PRIVATE ledgerkv PkgConfig::jansson)
    target_compile_definitions(kvctl PRIVATE KVCTL_VERSION="${PROJECT_VERSION}")
    set_target_properties(kvctl PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
        INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endfunction()

function(lkv_examples)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
    if(NOT TARGET ledgerkv)
        return()
    endif()
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        add_executable(example_${name} ${source})
        target_link_libraries(example_${name} PRIVATE ledgerkv Threads::Threads)
        if(name MATCHES "^uv_") # a program that uses libuv itself
            target_link_libraries(example_${name} PRIVATE PkgConfig::uv)
        endif()
        set_target_properties(example_${name} PROPERTIES
            OUTPUT_NAME ${name}
            RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
    endforeach()
endfunction()

# bench/<name>.c -> bin/bench_<name>: what is measured inside of one process.
function(lkv_benches)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.c)
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        if(name STREQUAL "maps" AND NOT (TARGET PkgConfig::glib AND LKV_ROCKSDB_FOUND))
            continue() # others' maps, to compare with: not needed for anything else
        endif()
        add_executable(bench_${name} ${source})
        target_link_libraries(bench_${name} PRIVATE ledgerkv_internal)
        if(name STREQUAL "maps")
            target_include_directories(bench_maps SYSTEM PRIVATE ${ROCKSDB_INCLUDE_DIR})
            target_link_libraries(bench_maps PRIVATE PkgConfig::glib ${ROCKSDB_LIBRARY})
        endif()
        set_target_properties(bench_${name} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    endforeach()
endfunction()
