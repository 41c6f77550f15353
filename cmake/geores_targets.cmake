# Defines every target of this project: one library per folder of geores/ and of lab/, test programs next to
# it, the same warnings everywhere, and precompiled headers.
#
# Where compile time goes (GCC 12, seconds of one core): torch's headers 14 a file; precompiled, still 6,
# because the templates they leave open are instantiated in every file again: hence few, large files
# (CMAKE_UNITY_BUILD) and few test programs. fmt as headers alone costs 5 a file, linked 0.2. The
# optimiser takes two thirds of the rest: it works for kernels and numbers, less for code that waits for
# LibTorch, not for tests. Under sanitizers, where every check is optimised too, the same more so.

function(geores_settings target scope)
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} ${scope} cxx_std_20)
  if(scope STREQUAL "INTERFACE")
    return()
  endif()
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow
                                           $<$<BOOL:${GEORES_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 reports `"text" + std::string` as overlapping copies (GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(GEORES_SANITIZE)
    # Checks before every use of a pointer double the compile time of templates and see little that the
    # address sanitizer does not: it reports null and objects that are too small. Alignment is checked
    # where raw memory becomes vectors (kernels/CMakeLists.txt). Instrumented code makes GCC see
    # uninitialised variables where there are none.
    target_compile_options(${target} PRIVATE -fsanitize=${GEORES_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize=null,object-size,vptr,alignment
                                             -fno-sanitize-recover=all
                                             $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${target} PRIVATE -fsanitize=${GEORES_SANITIZE})
  endif()
endfunction()

# geores_sources(VARIABLE): the .cpp files below this folder that belong to its library. A new file is
# found by itself. Tests end in _test.cpp; X_cuda.cpp is for a LibTorch with CUDA, X_host.cpp for one
# without, X_emulated.cpp for tests that emulate a GPU; X_arm.cpp and X_x86.cpp are compiled for their processor by the folder that has them, X_plugin.cpp
# is a library of its own.
function(geores_sources variable)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  list(FILTER sources EXCLUDE REGEX "(_test|_emulated|_arm|_x86|_plugin)\\.cpp$")
  if(GEORES_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "_host\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "_cuda\\.cpp$")
  endif()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# geores_library(NAME [HEADERS_ONLY|SHARED] [SOURCES a.cpp b.cpp] DEPENDS geores_base ${GEORES_FMT})
# NAME becomes target geores_NAME, exported as geores::NAME if its folder is in geores/: a project that finds
# geores does not get lab/. Without SOURCES it takes all sources below its folder.
function(geores_library name)
  cmake_parse_arguments(arg "HEADERS_ONLY;STATIC;SHARED" "" "SOURCES;DEPENDS" ${ARGN})
  set(target geores_${name})
  if(NOT arg_SOURCES AND NOT arg_HEADERS_ONLY)
    geores_sources(arg_SOURCES)
  endif()
  if(arg_SOURCES)
    set(kind STATIC)
    if(arg_SHARED)
      set(kind SHARED)
    endif()
    add_library(${target} ${kind} ${arg_SOURCES})
    geores_settings(${target} PUBLIC)
    target_link_libraries(${target} PUBLIC ${arg_DEPENDS})
    geores_precompile(${target} "${arg_DEPENDS}" FALSE)
    # Reading the precompiled torch header alone costs seconds a file: the presets that CI runs
    # compile the sources of a library together (CMAKE_UNITY_BUILD).
    set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 32)
  else()
    add_library(${target} INTERFACE)
    geores_settings(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_DEPENDS})
  endif()
  add_library(geores::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/geores/")
    set_property(GLOBAL APPEND PROPERTY GEORES_LIBRARIES ${target})
  endif()
endfunction()

set(GEORES_SEES_TORCH "geores_(ops|modules|storage|residual|model|data|train|benchmark|reference|diagnostics|experiments)|torch")

# Headers that nearly every file includes besides its own folder's. Unity builds precompile it; preset dev
# precompiles torch alone, so that a file that forgets an include is found there.
set(GEORES_COMMON_HEADERS <fmt/format.h> <nlohmann/json.hpp> <algorithm> <filesystem> <functional> <map>
                          <memory> <random> <set> <span> <sstream> <string> <vector>)

# geores_carry_header(NAME LINKS ... HEADERS ... OPTIONS ...): a target that carries a precompiled header
# for others.
function(geores_carry_header name)
  cmake_parse_arguments(arg "" "" "LINKS;HEADERS;OPTIONS" ${ARGN})
  set(empty ${CMAKE_BINARY_DIR}/${name}.cpp)
  if(NOT EXISTS ${empty})
    file(WRITE ${empty} "// carries the precompiled header\n")
  endif()
  add_library(${name} STATIC ${empty})
  geores_settings(${name} PRIVATE)
  target_link_libraries(${name} PRIVATE ${arg_LINKS})
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
endfunction()

# geores_precompile(TARGET DEPENDS IS_TEST): how far a target is optimised, where not as the preset says,
# and the precompiled header that fits it. The folders above ops/ all see torch; those below must not.
function(geores_precompile target depends is_test)
  set(options)
  if(is_test)
    set(options $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
  elseif(depends MATCHES "${GEORES_SEES_TORCH}")
    set(options $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)
  endif()
  target_compile_options(${target} PRIVATE ${options})
  # A header is precompiled for one level of optimisation; under sanitizers, what sees torch and its tests
  # have the same, and share it.
  set(shared FALSE)
  if(GEORES_SANITIZE AND GEORES_TESTS AND CMAKE_UNITY_BUILD AND CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo"
     AND depends MATCHES "${GEORES_SEES_TORCH}")
    set(shared TRUE)
    # The header was compiled with GoogleTest's definition and is refused without it.
    target_compile_definitions(${target} PRIVATE GTEST_HAS_PTHREAD=1)
  endif()
  set(links)
  set(headers)
  if(CMAKE_UNITY_BUILD)
    set(links ${GEORES_FMT} nlohmann_json::nlohmann_json)
    set(headers ${GEORES_COMMON_HEADERS})
    if(is_test OR shared)
      list(APPEND links GTest::gtest)
      list(APPEND headers <gtest/gtest.h>)
    endif()
  endif()
  if(depends MATCHES "${GEORES_SEES_TORCH}")
    set(carrier geores_pch)
    list(APPEND links torch)
    list(PREPEND headers ${PROJECT_SOURCE_DIR}/geores/ops/torch.h)
  elseif(CMAKE_UNITY_BUILD AND depends MATCHES "geores_base|nlohmann_json")
    set(carrier geores_plain_pch)
  else()
    return()
  endif()
  if(is_test AND NOT shared)
    string(APPEND carrier _of_tests)
  endif()
  if(NOT TARGET ${carrier})
    geores_carry_header(${carrier} LINKS ${links} HEADERS ${headers} OPTIONS ${options})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${carrier})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # ccache needs -fpch-preprocess with a precompiled header. A header that the compiler refuses costs its
    # own time and saves none: an error, also where other warnings are not.
    target_compile_options(${target} PRIVATE -fpch-preprocess -Werror=invalid-pch)
  endif()
endfunction()

# geores_program(NAME [TEST] SOURCES main.cpp DEPENDS geores_model)
function(geores_program name)
  cmake_parse_arguments(arg "TEST" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 32)
  geores_settings(${name} PRIVATE)
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
  # Compiled as libraries are, so that they can share the precompiled header.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  geores_precompile(${name} "${arg_DEPENDS}" ${arg_TEST})
endfunction()

# geores_test(NAME [OPTIMISED] [SOURCES a_test.cpp] DEPENDS geores_base [SHARDS 2] [DEFINITIONS A=1]
#             [PARTS "cli CommandLine.*:UserData.*" ...] [GPU gpu_training] [ONLY "*EqualComposed"])
# Without SOURCES: every *_test.cpp below this folder. A test program is one ctest
# entry (loading torch for every single case would cost more than the cases); SHARDS splits a long one
# so that two cores can share it. PARTS gives groups of tests, by GoogleTest's patterns, entries with names
# of their own: one program is compiled and linked faster than several. NAME runs the remaining tests.
# GPU is the name of the part that needs one: the suites Gpu of the files *gpu_test.cpp; sanitizers leave them
# out. ONLY: GoogleTest's patterns of the tests to run. OPTIMISED: the test itself computes (templates of Eigen, say).
function(geores_test name)
  if(NOT GEORES_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "OPTIMISED" "SHARDS;GPU;ONLY" "SOURCES;DEPENDS;DEFINITIONS;PARTS" ${ARGN})
  if(NOT arg_SOURCES)
    file(GLOB_RECURSE arg_SOURCES CONFIGURE_DEPENDS *_test.cpp)
    if(GEORES_SANITIZE OR NOT arg_GPU)
      list(FILTER arg_SOURCES EXCLUDE REGEX "gpu_test\\.cpp$")
    else()
      list(APPEND arg_PARTS "${arg_GPU} Gpu.*")
    endif()
  endif()
  set(program test_${name})
  set(how TEST)
  if(arg_OPTIMISED)
    set(how)
  endif()
  geores_program(${program} ${how} SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS} GTest::gtest_main)
  target_compile_definitions(${program} PRIVATE ${arg_DEFINITIONS})
  set(named)
  foreach(part ${arg_PARTS})
    string(REGEX MATCH "^([^ ]+) +(.*)$" part "${part}")
    geores_test_entry(${CMAKE_MATCH_1} ${program} "${CMAKE_MATCH_2}" 1 0)
    string(APPEND named ":${CMAKE_MATCH_2}")
  endforeach()
  if(named)
    string(REGEX REPLACE "^:" "-" named "${named}")
  endif()
  if(NOT arg_ONLY)
    set(arg_ONLY *)
  endif()
  if(NOT arg_SHARDS)
    geores_test_entry(${name} ${program} "${arg_ONLY}${named}" 1 0)
    return()
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    geores_test_entry(${name}.${shard} ${program} "${arg_ONLY}${named}" ${arg_SHARDS} ${shard})
  endforeach()
endfunction()

function(geores_test_entry name program filter shards shard)
  add_test(NAME ${name} COMMAND ${program})
  # Sanitizers keep four frames of each allocation and release: walking the whole stack takes a tenth of the time.
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 ENVIRONMENT
    "OMP_NUM_THREADS=1;GTEST_FILTER=${filter};GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard};ASAN_OPTIONS=detect_leaks=0:malloc_context_size=4")
endfunction()

# Settings for the targets of a folder that uses Eigen.
option(GEORES_SANITIZE_SPECTRAL "Sanitize geores/spectral and geores/spectrum too" OFF)
function(geores_eigen_settings)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    # Eigen without the optimiser is fifty times slower, and stepping through a fixed point is never useful.
    # The tests too: one unoptimised copy of a template is enough for the linker to prefer it.
    set(level -O2)
    if(target MATCHES "^test_")
      set(level -O1)
    endif()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Debug,Release>:${level}>)
    if(GEORES_SANITIZE AND NOT GEORES_SANITIZE_SPECTRAL)
      # Eigen's expressions take minutes to compile with sanitizers: left out unless asked for.
      # Instrumented code that frees a matrix from here must agree on how it was allocated: Eigen
      # would pad its blocks by hand in instrumented code only.
      target_compile_definitions(${target} PUBLIC EIGEN_MALLOC_ALREADY_ALIGNED=1)
      target_compile_options(${target} PRIVATE -fno-sanitize=all)
    endif()
  endforeach()
endfunction()
