# cmake --install, and find_package(geores): link geores::geores for all of it, or a single layer.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY GEORES_LIBRARIES)
add_library(geores_all INTERFACE)
add_library(geores::geores ALIAS geores_all)
target_link_libraries(geores_all INTERFACE ${libraries})
set_target_properties(geores_all PROPERTIES EXPORT_NAME geores)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/geores)
install(TARGETS ${libraries} geores_all EXPORT geores_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET geores)
  # The programs find their shared libraries next to them, and LibTorch where they were built with it.
  set_target_properties(geores geores-lab PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}"
                                          INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS geores geores-lab RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY geores DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN "testing.h" EXCLUDE PATTERN "*_test.h" EXCLUDE PATTERN "gradient_check.h" EXCLUDE
        PATTERN "finite_difference.h" EXCLUDE PATTERN "for_sizes.h" EXCLUDE)
install(EXPORT geores_targets NAMESPACE geores:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(cmake/geores_config.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/georesConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(georesConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/georesConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/georesConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT development)
# The explorer's page, where it has been built: `geores explore` looks for it there.
install(FILES ${PROJECT_SOURCE_DIR}/build/web/explorer.html
        DESTINATION ${CMAKE_INSTALL_DATADIR}/geores OPTIONAL)
