# How a room, a test and a fuzz target are declared.

find_program(QUERN_CCACHE ccache)
if(QUERN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${QUERN_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${QUERN_CCACHE})
endif()

# Floating point follows the source (the numeric contract): no contraction of
# a * b + c behind our back; kernels say fma where they mean it.
add_compile_options(-Wall -Wextra -Wno-unused-parameter
                    -Wno-missing-field-initializers -ffp-contract=off)
if(QUERN_SANITIZE)
  add_compile_options(-fsanitize=${QUERN_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${QUERN_SANITIZE})
  if(QUERN_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(QUERN_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
  endif()
endif()

# quern_room(NAME SOURCES a.cpp ... ROOMS lower neighbours ... LIBS libraries)
function(quern_room name)
  cmake_parse_arguments(R "" "" "SOURCES;ROOMS;LIBS" ${ARGN})
  add_library(quern_${name} STATIC ${R_SOURCES})
  target_include_directories(quern_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM R_ROOMS PREPEND quern_)
  target_link_libraries(quern_${name} PUBLIC ${R_ROOMS} ${R_LIBS})
endfunction()

# quern_test(NAME SOURCES ... ROOMS ... LABEL unit): one gtest program, one
# ctest entry a case. FIXTURE names a ctest fixture that the cases need.
function(quern_test name)
  cmake_parse_arguments(T "" "LABEL;FIXTURE" "SOURCES;ROOMS;ENV" ${ARGN})
  if(NOT T_LABEL)
    set(T_LABEL unit)
  endif()
  add_executable(${name} ${T_SOURCES})
  list(TRANSFORM T_ROOMS PREPEND quern_)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${T_ROOMS} GTest::gtest GTest::gmock
                                        GTest::gtest_main)
  target_compile_definitions(
    ${name} PRIVATE QUERN_TEST_DIR="${PROJECT_SOURCE_DIR}/tests")
  set(properties LABELS ${T_LABEL} TIMEOUT 900)
  if(T_FIXTURE)
    list(APPEND properties FIXTURES_REQUIRED ${T_FIXTURE})
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 120
    PROPERTIES ${properties} ENVIRONMENT "${T_ENV}")
endfunction()

# quern_python_test(LABEL TESTS parity.test_a.B.test_c ... [TIMEOUT s]
#                   [PATHS folders] [ENV more]): one ctest entry a unittest
# name, run in the current folder.
function(quern_python_test label)
  cmake_parse_arguments(P "" "TIMEOUT" "TESTS;PATHS;ENV" ${ARGN})
  if(NOT P_TIMEOUT)
    set(P_TIMEOUT 900)
  endif()
  list(JOIN P_PATHS ":" path)
  set(environment QUERN_BINARY=$<TARGET_FILE:quern> PYTHONPATH=${path} ${P_ENV})
  foreach(test ${P_TESTS})
    set(name ${label}.${test})
    add_test(NAME ${name}
             COMMAND ${QUERN_TEST_PYTHON} -B -m unittest ${test}
             WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_tests_properties(
      ${name} PROPERTIES
      LABELS ${label} TIMEOUT ${P_TIMEOUT} ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# quern_fuzz(NAME SOURCES ... ROOMS ...): a libFuzzer program in the fuzz
# build's fuzzers/ (tools/fuzz.sh runs them; the target `fuzzers` builds them),
# and the same inputs replayed as an ordinary test in every other build.
function(quern_fuzz name)
  cmake_parse_arguments(F "" "" "SOURCES;ROOMS" ${ARGN})
  list(TRANSFORM F_ROOMS PREPEND quern_)
  if(QUERN_FUZZ)
    add_executable(${name} ${F_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(
      ${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
    if(NOT TARGET fuzzers)
      add_custom_target(fuzzers)
    endif()
    add_dependencies(fuzzers ${name})
  else()
    add_executable(${name} ${F_SOURCES}
                           ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
    add_test(NAME fuzz.${name}
             COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS unit TIMEOUT 300)
  endif()
  target_link_libraries(${name} PRIVATE ${F_ROOMS})
endfunction()
