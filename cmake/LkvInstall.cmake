# What a stranger gets: two headers, the shared and the static library, kvctl, and the descriptions
# with which pkg-config and CMake find them. The manual pages are LkvManual's.
include(CMakePackageConfigHelpers)

if(NOT TARGET ledgerkv)
    return()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ledgerkv)

install(FILES ${LKV_PUBLIC_HEADERS}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS ledgerkv EXPORT ledgerkv-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ledgerkv_static)
    install(FILES ${PROJECT_BINARY_DIR}/libledgerkv.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET ledgerkv-rocksdb)
    # Beside the library: that is where it looks.
    install(TARGETS ledgerkv-rocksdb LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET kvctl)
    install(TARGETS kvctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Paths are relative to the file, so that an installed tree can be moved.
file(RELATIVE_PATH LKV_PC_PREFIX
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/ledgerkv.pc.in ${PROJECT_BINARY_DIR}/ledgerkv.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ledgerkv.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(EXPORT ledgerkv-targets NAMESPACE ledgerkv:: DESTINATION ${package_dir})
configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/ledgerkv-config.cmake.in ${PROJECT_BINARY_DIR}/ledgerkv-config.cmake
    INSTALL_DESTINATION ${package_dir}
    PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ledgerkv-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES
    ${PROJECT_BINARY_DIR}/ledgerkv-config.cmake
    ${PROJECT_BINARY_DIR}/ledgerkv-config-version.cmake
    DESTINATION ${package_dir})
