# Third-party libraries; tools/setup.sh installs them and pins their versions.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)

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
  # The Python of the reference tests: tools/setup.sh names its folder by the
  # hash of the pins.
  set(QUERN_TEST_PINS ${PROJECT_SOURCE_DIR}/tools/requirements-test.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                                         ${QUERN_TEST_PINS})
  file(SHA256 ${QUERN_TEST_PINS} QUERN_TEST_HASH)
  string(SUBSTRING ${QUERN_TEST_HASH} 0 12 QUERN_TEST_HASH)
  set(QUERN_TEST_PYTHON
      ${QUERN_DEPS}/test-venv-${QUERN_TEST_HASH}/bin/python)
endif()
