# How each kind of test is built and registered.

set(LKV_RUN_TEST ${PROJECT_SOURCE_DIR}/cmake/run_test.sh)
set(LKV_TESTS_DIR ${PROJECT_SOURCE_DIR}/tests)
set(LKV_TEST_ROOMS base log raft kv)

# lkv_add_test(NAME name LABEL label [SECONDS n] [NETNS] [ENVIRONMENT a=b...] COMMAND ...)
# Everything goes through run_test.sh: in a sanitizer tree it is what makes a report fail the test.
function(lkv_add_test)
    cmake_parse_arguments(arg "NETNS" "NAME;LABEL;SECONDS" "ENVIRONMENT;COMMAND" ${ARGN})
    set(options "")
    if(LKV_SANITIZE)
        list(APPEND options --reports ${PROJECT_BINARY_DIR}/reports/${arg_NAME})
    endif()
    if(arg_NETNS)
        list(APPEND options --netns)
    endif()
    add_test(NAME ${arg_NAME} COMMAND ${LKV_RUN_TEST} ${options} -- ${arg_COMMAND})

    if(NOT arg_SECONDS)
        set(arg_SECONDS 300)
    endif()
    set(labels ${arg_LABEL})
    if(arg_NAME MATCHES "_long$")
        list(APPEND labels long)
        set(arg_SECONDS 3600)
    endif()
    set_tests_properties(${arg_NAME} PROPERTIES
        LABELS "${labels}"
        TIMEOUT ${arg_SECONDS}
        ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

# What tests share: support/ (helpers) and sim/ (fakes of the clock, disk, network and work seams).
# A file with a main stays out of the archives, since the linker would prefer it to Criterion's.
function(lkv_test_helpers)
    foreach(name IN ITEMS support sim)
        file(GLOB sources CONFIGURE_DEPENDS ${LKV_TESTS_DIR}/${name}/*.c)
        list(FILTER sources EXCLUDE REGEX "main\\.c$")
        if(sources)
            add_library(${name} STATIC ${sources})
            set(scope PUBLIC)
        else()
            add_library(${name} INTERFACE)
            set(scope INTERFACE)
        endif()
        target_include_directories(${name} ${scope}
            ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include)
        target_link_libraries(${name} ${scope} Threads::Threads)
    endforeach()
    # The simulator's own program runs whole nodes, so it sees everything.
    file(GLOB main CONFIGURE_DEPENDS ${LKV_TESTS_DIR}/sim/main.c)
    if(main)
        add_executable(simulate ${main})
        target_link_libraries(simulate PRIVATE sim support ledgerkv_internal)
        set_target_properties(simulate PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
        if(LKV_SANITIZE)
            set(count 40)
        else()
            set(count 200)
        endif()
        if(NOT LKV_SANITIZE STREQUAL thread)
            lkv_add_test(NAME sim_fresh LABEL sim SECONDS 600
                COMMAND ${LKV_TESTS_DIR}/sim/fresh.sh $<TARGET_FILE:simulate> ${count})
        endif()
    endif()
endfunction()

# lkv_test_executable(target room sources...): `room` decides what is linked, see tests/CMakeLists.txt.
function(lkv_test_executable target room)
    add_executable(${target} ${ARGN})
    if(room IN_LIST LKV_TEST_ROOMS)
        set(under_test ${room} base)
    else()
        set(under_test ledgerkv_internal)
    endif()
    # The helpers come first: they use what is under test.
    target_link_libraries(${target} PRIVATE sim support ${under_test} Threads::Threads)
    target_compile_definitions(${target} PRIVATE LKV_TESTS_DIR="${LKV_TESTS_DIR}")
    if(LKV_SANITIZE)
        target_compile_definitions(${target} PRIVATE LKV_STRIDE=8) # tests/support/stride.h
    endif()
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
    if(TARGET ledgerkv-rocksdb) # loaded when it is asked for, also by a test that is built alone
        add_dependencies(${target} ledgerkv-rocksdb)
    endif()
endfunction()

function(lkv_unit_tests)
    file(GLOB sources CONFIGURE_DEPENDS ${LKV_TESTS_DIR}/unit/*/*.c)
    if(NOT LKV_ROCKSDB_FOUND)
        list(FILTER sources EXCLUDE REGEX "/kv/engines[a-z_]*\\.c$")
    endif()
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        get_filename_component(folder ${source} DIRECTORY)
        get_filename_component(room ${folder} NAME)
        set(target unit_${room}_${name})
        lkv_test_executable(${target} ${room} ${source})
        target_link_libraries(${target} PRIVATE PkgConfig::criterion)
        # Criterion's cr_assert(eq(...)) assigns an int to a bit-field inside our own lines.
        target_compile_options(${target} PRIVATE -Wno-conversion)
        # One at a time: ctest already runs executables side by side.
        lkv_add_test(NAME ${target} LABEL unit COMMAND $<TARGET_FILE:${target}> --jobs 1)
    endforeach()
endfunction()

# The same tests with the other engine (tests/unit/kv/feed.h). Left out is what looks at the memory of the first
# one: failed allocations, and images loaded without a home.
function(lkv_engine_tests)
    if(NOT LKV_ROCKSDB_FOUND OR LKV_SANITIZE) # there unit_kv_engines does
        return()
    endif()
    set(runs "lease !(*s28*|*naive*)" "semantics !(s28*)" "session !(s28*|*naive*)"
        "watch !(*without_memory)")
    foreach(run IN LISTS runs)
        string(REPLACE " " ";" run ${run})
        list(GET run 0 name)
        list(GET run 1 filter)
        lkv_add_test(NAME rocksdb_kv_${name} LABEL unit ENVIRONMENT LKV_TEST_ENGINE=rocksdb
            COMMAND $<TARGET_FILE:unit_kv_${name}> --jobs 1 --filter kv_${name}/${filter})
    endforeach()
endfunction()

function(lkv_thread_tests)
    file(GLOB sources CONFIGURE_DEPENDS ${LKV_TESTS_DIR}/threads/*.c)
    if(LKV_SANITIZE OR NOT LKV_ROCKSDB_FOUND) # its own write(2) would stand in a sanitizer's place
        list(FILTER sources EXCLUDE REGEX "/kv_engine_kill\\.c$")
    endif()
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        string(REGEX REPLACE "_.*" "" room ${name})
        lkv_test_executable(threads_${name} ${room} ${source})
        if(name STREQUAL kv_engine_kill) # the module finds its functions
            set_target_properties(threads_${name} PROPERTIES ENABLE_EXPORTS ON)
        endif()
        lkv_add_test(NAME threads_${name} LABEL threads SECONDS 300
            COMMAND $<TARGET_FILE:threads_${name}>)
    endforeach()
endfunction()

# Scenarios play the consensus core, so the runner links that room; give it ledgerkv_internal when a
# scenario needs a whole node.
function(lkv_scenario_tests)
    file(GLOB sources CONFIGURE_DEPENDS ${LKV_TESTS_DIR}/scenarios/*.c)
    file(GLOB scenarios CONFIGURE_DEPENDS
        ${LKV_TESTS_DIR}/scenarios/*.txt ${LKV_TESTS_DIR}/scenarios/*/*.txt)
    if(NOT sources)
        return()
    endif()
    lkv_test_executable(scenarios raft ${sources})
    foreach(scenario IN LISTS scenarios)
        file(RELATIVE_PATH name ${LKV_TESTS_DIR}/scenarios ${scenario})
        string(REGEX REPLACE "\\.txt$" "" name ${name})
        string(MAKE_C_IDENTIFIER ${name} name)
        lkv_add_test(NAME scenario_${name} LABEL scenario
            COMMAND $<TARGET_FILE:scenarios> ${scenario})
    endforeach()
endfunction()

# Processes mostly wait, so these run beside other tests. What a sanitizer is unlikely to learn from is
# left to the plain tree, or the whole would take longer than anybody waits. AddressSanitizer sees the
# same code in unit_lib and unit_sim; ThreadSanitizer looks for other things than disks and exit codes.
set(LKV_CLUSTER_NOT_address broker engine engine_long graceful_stop growing import_patience leader_loses_quorum log_once
    log_sigkill once paused_leader restored_data)
set(LKV_CLUSTER_NOT_thread copied_directory corrupt_files engine engine_long exit_codes full_disks growing import_patience
    installed leader_loses_quorum log_full_disk restored_data status_of_disks wiped_member)

function(lkv_cluster_tests)
    file(GLOB scripts CONFIGURE_DEPENDS ${LKV_TESTS_DIR}/cluster/*.sh)
    if(NOT TARGET kvctl)
        return()
    endif()
    # Checks the histories that the tests' loads write.
    add_executable(witness ${LKV_TESTS_DIR}/cluster/witness.c)
    target_link_libraries(witness PRIVATE support sim ledgerkv_internal)
    add_executable(check-history ${LKV_TESTS_DIR}/cluster/check_history.c)
    target_link_libraries(check-history PRIVATE support)
    set_target_properties(witness check-history PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    set(state_disk "")
    if(LKV_ROCKSDB_FOUND)
        add_library(state-disk MODULE ${LKV_TESTS_DIR}/cluster/state_disk.c)
        target_link_libraries(state-disk PRIVATE ${CMAKE_DL_LIBS})
        target_compile_options(state-disk PRIVATE -fvisibility=default)
        set(state_disk STATE_DISK=$<TARGET_FILE:state-disk>)
    endif()
    foreach(script IN LISTS scripts)
        get_filename_component(name ${script} NAME_WE)
        # Sourced by the others, not a test.
        if(name MATCHES "^(lib|common|helpers?)$" OR name MATCHES "^_")
            continue()
        endif()
        string(REGEX REPLACE ",.*" "" sanitizer "${LKV_SANITIZE}")
        if(name IN_LIST LKV_CLUSTER_NOT_${sanitizer})
            continue()
        endif()
        lkv_add_test(NAME cluster_${name} LABEL cluster SECONDS 300 NETNS
            ENVIRONMENT KVCTL=$<TARGET_FILE:kvctl> WITNESS=$<TARGET_FILE:witness>
                CHECK_HISTORY=$<TARGET_FILE:check-history> ${state_disk}
            COMMAND bash ${script})
    endforeach()
endfunction()

function(lkv_fuzz_targets)
    file(GLOB sources CONFIGURE_DEPENDS ${LKV_TESTS_DIR}/fuzz/*.c)
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        string(REGEX REPLACE "_.*" "" room ${name})
        lkv_test_executable(fuzz_${name} ${room} ${source})
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    endforeach()
endfunction()
