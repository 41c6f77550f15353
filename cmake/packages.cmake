# cpack -G DEB: two Debian packages, `geores` with the program and its kernels, `libgeores-dev` with the
# libraries and headers. scripts/package makes the rest: manual pages and completions.
option(GEORES_PACKAGES "Configure cpack for Debian packages" OFF)
if(NOT GEORES_PACKAGES)
  return()
endif()
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT program)
foreach(package geores libgeores-dev)
  set(component program)
  if(package MATCHES dev)
    set(component development)
  endif()
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} RENAME copyright
          COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The geores authors <geores@localhost>")
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "${PROJECT_DESCRIPTION}
 The program trains, evaluates and inspects them, and reproduces the tables of papers about them.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${PROJECT_DESCRIPTION}: C++ library
 Every residual connection behind one interface, for projects that find it with CMake.")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME geores)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
# Its own library, which no package has yet.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/geores/kernels)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgeores-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "geores (= ${PROJECT_VERSION}), libtorch-dev, libopenblas-dev, libfmt-dev, nlohmann-json3-dev, libeigen3-dev, libpcre2-dev, libgloo-dev")
include(CPack)
