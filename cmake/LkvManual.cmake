# The manual pages, ledgerkv(3) and kvctl(1): made from the public header and from what kvctl says of itself,
# so they are there where kvctl can run at build time.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT TARGET kvctl OR NOT Python3_FOUND OR CMAKE_CROSSCOMPILING OR LKV_SANITIZE OR LKV_COVERAGE)
    message(STATUS "No manual pages: they need python3, and a kvctl that runs here, uninstrumented")
    return()
endif()

set(LKV_MANUAL_DIR ${PROJECT_BINARY_DIR}/man)
set(headers ${LKV_PUBLIC_HEADERS})
list(FILTER headers INCLUDE REGEX "^lib/")
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/)
set(errors ${PROJECT_SOURCE_DIR}/base/ledgerkv_errors.h)
set(pages ${PROJECT_SOURCE_DIR}/docs/man/pages.py)
string(TIMESTAMP date "%Y-%m-%d" UTC) # SOURCE_DATE_EPOCH, where it is set

add_custom_command(
    OUTPUT ${LKV_MANUAL_DIR}/man3/ledgerkv.3 ${LKV_MANUAL_DIR}/man1/kvctl.1
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${LKV_MANUAL_DIR}
    COMMAND ${Python3_EXECUTABLE} -B ${pages} --header ${headers} --errors ${errors}
            --kvctl $<TARGET_FILE:kvctl> --version ${PROJECT_VERSION} --date ${date} ${LKV_MANUAL_DIR}
    DEPENDS kvctl ${headers} ${errors} ${pages}
    VERBATIM
    COMMENT "Writing the manual pages")
add_custom_target(manual ALL DEPENDS ${LKV_MANUAL_DIR}/man3/ledgerkv.3)

install(DIRECTORY ${LKV_MANUAL_DIR}/ DESTINATION ${CMAKE_INSTALL_MANDIR})
