# Third-party libraries; tools/setup.sh installs them and pins their versions.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(spdlog REQUIRED)
find_package(Boost 1.81 CONFIG REQUIRED)  # headers only: Asio and Beast

# MLX comes as the wheel that tools/setup.sh unpacks (libmlx.so, headers).
set(QUERN_DEPS "$ENV{QUERN_DEPS}" CACHE PATH "Folder of unpacked wheels")
if(NOT QUERN_DEPS)
  set(QUERN_DEPS "$ENV{HOME}/.cache/quern/deps")
endif()
find_package(MLX 0.32.4 EXACT CONFIG REQUIRED
             PATHS ${QUERN_DEPS}/mlx-0.32.4/mlx NO_DEFAULT_PATH)

if(QUERN_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  # The Python and Node packages of the tests: tools/setup.sh names their
  # folders by the hashes of the pins.
  function(quern_test_deps variable name pins)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${pins})
    file(SHA256 ${pins} hash)
    string(SUBSTRING ${hash} 0 12 hash)
    set(${variable} ${QUERN_DEPS}/${name}-${hash} PARENT_SCOPE)
  endfunction()
  quern_test_deps(QUERN_TEST_VENV test-venv
                  ${PROJECT_SOURCE_DIR}/tools/requirements-test.txt)
  quern_test_deps(QUERN_TEST_NODE test-node
                  ${PROJECT_SOURCE_DIR}/tests/clients/node/package-lock.json)
  set(QUERN_TEST_PYTHON ${QUERN_TEST_VENV}/bin/python)
endif()
