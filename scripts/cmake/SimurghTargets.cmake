# Functions that declare libraries, programs, plug-ins, schemas and tests.

# Every user of Asio must compile it with these. rpc/async.cc compiles its non-template code once. Asio caches freed
# coroutine frames per thread; its default of 2 is too small for concurrent calls.
set(SIMURGH_ASIO_DEFINITIONS BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE=16)

# Precompiled headers hold system headers only, which change rarely. Those with Asio are for targets that
# link simurgh_rpc, since Asio's headers refer to the code that rpc/async.cc compiles. An empty source carries each.
set(SIMURGH_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream>
  <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string>
  <string_view> <thread> <tuple> <unordered_map> <utility> <variant> <vector>
  <absl/container/flat_hash_map.h> <absl/functional/any_invocable.h> <absl/status/statusor.h>
  <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h> <absl/strings/str_split.h>
  <spdlog/spdlog.h>)
set(SIMURGH_RPC_HEADERS <absl/strings/cord.h> <flatbuffers/flatbuffers.h> <boost/asio/as_tuple.hpp>
  <boost/asio/awaitable.hpp> <boost/asio/bind_cancellation_slot.hpp> <boost/asio/co_spawn.hpp>
  <boost/asio/detached.hpp> <boost/asio/executor_work_guard.hpp> <boost/asio/io_context.hpp> <boost/asio/ip/tcp.hpp>
  <boost/asio/post.hpp> <boost/asio/steady_timer.hpp> <boost/asio/use_awaitable.hpp>)

function(simurgh_precompiled_headers name)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled/${name}.cc" CONTENT "")
  add_library(simurgh_precompiled_${name} OBJECT "${PROJECT_BINARY_DIR}/precompiled/${name}.cc")
  target_link_libraries(simurgh_precompiled_${name} PRIVATE absl::flat_hash_map absl::status spdlog::spdlog)
  target_precompile_headers(simurgh_precompiled_${name} PRIVATE ${ARGN})
  set_target_properties(simurgh_precompiled_${name} PROPERTIES
    CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/scripts/cmake/precompile.sh")
endfunction()

if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  simurgh_precompiled_headers(library ${SIMURGH_COMMON_HEADERS})
  simurgh_precompiled_headers(library_rpc ${SIMURGH_COMMON_HEADERS} ${SIMURGH_RPC_HEADERS})
  simurgh_precompiled_headers(test ${SIMURGH_COMMON_HEADERS} <catch2/catch.hpp>)
  simurgh_precompiled_headers(test_rpc ${SIMURGH_COMMON_HEADERS} ${SIMURGH_RPC_HEADERS} <catch2/catch.hpp>)
  foreach(name test test_rpc)
    target_link_libraries(simurgh_precompiled_${name} PRIVATE simurgh_catch2)
  endforeach()
  foreach(name library_rpc test_rpc)
    target_compile_definitions(simurgh_precompiled_${name} PRIVATE ${SIMURGH_ASIO_DEFINITIONS})
    target_link_libraries(simurgh_precompiled_${name} PRIVATE Boost::headers flatbuffers::flatbuffers)
  endforeach()
endif()

# simurgh_use_precompiled_headers(target library|test DEPS ...)
function(simurgh_use_precompiled_headers target kind)
  set(uses_rpc OFF)
  if(target STREQUAL simurgh_rpc)
    set(uses_rpc ON)
  endif()
  foreach(dependency ${ARGN})
    if(TARGET ${dependency})
      get_target_property(dependency_uses_rpc ${dependency} SIMURGH_USES_RPC)
      if(dependency_uses_rpc)
        set(uses_rpc ON)
      endif()
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES SIMURGH_USES_RPC ${uses_rpc})
  if(uses_rpc)
    string(APPEND kind _rpc)
  endif()
  if(TARGET simurgh_precompiled_${kind})
    target_precompile_headers(${target} REUSE_FROM simurgh_precompiled_${kind})
  endif()
endfunction()

# simurgh_compile_alone(SOURCES...)
# Keeps sources out of unity builds: those that Highway compiles once for each processor, those that a style test
# replaces, and those whose local names others of the same program have, too.
function(simurgh_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# simurgh_library(name SOURCES ... [DEPS ...] [PRIVATE_DEPS ...])
# A static library, target simurgh_<name>.
function(simurgh_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(simurgh_${name} STATIC ${ARG_SOURCES})
  target_compile_features(simurgh_${name} PUBLIC cxx_std_20)
  target_include_directories(simurgh_${name}
    PUBLIC "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(simurgh_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  simurgh_use_precompiled_headers(simurgh_${name} library ${ARG_DEPS})
endfunction()

# simurgh_executable(name SOURCES ... [DEPS ...])
# A program in build/<preset>/bin. Links jemalloc, except in a sanitizer build.
function(simurgh_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  simurgh_use_precompiled_headers(${name} library ${ARG_DEPS})
  if(NOT SIMURGH_SANITIZE)
    target_link_libraries(${name} PRIVATE -Wl,--no-as-needed simurgh_jemalloc -Wl,--as-needed)
  endif()
endfunction()

# simurgh_plugin(name SOURCES ... [DEFINITIONS ...])
# A plug-in for feature processing in C99: build/<preset>/plugins/<name>.so.
function(simurgh_plugin name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEFINITIONS" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES PREFIX "" C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/plugins")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_compile_definitions(${name} PRIVATE ${ARG_DEFINITIONS})
endfunction()

# simurgh_flatbuffers(target SCHEMAS ...)
# Generates a header for each schema; include it as "<folder of the schema>/<schema>_generated.h".
function(simurgh_flatbuffers target)
  cmake_parse_arguments(ARG "" "" "SCHEMAS" ${ARGN})
  set(generated)
  foreach(schema ${ARG_SCHEMAS})
    get_filename_component(absolute "${schema}" ABSOLUTE)
    file(RELATIVE_PATH relative "${PROJECT_SOURCE_DIR}" "${absolute}")
    get_filename_component(folder "${relative}" DIRECTORY)
    get_filename_component(stem "${relative}" NAME_WE)
    set(output "${PROJECT_BINARY_DIR}/generated/${folder}/${stem}_generated.h")
    add_custom_command(OUTPUT "${output}"
      COMMAND ${FLATC} --cpp --cpp-std c++17 --scoped-enums
              -o "${PROJECT_BINARY_DIR}/generated/${folder}" "${absolute}"
      DEPENDS "${absolute}" COMMENT "flatc ${relative}" VERBATIM)
    list(APPEND generated "${output}")
  endforeach()
  add_custom_target(${target}_generated DEPENDS ${generated})
  add_library(${target} INTERFACE)
  add_dependencies(${target} ${target}_generated)
  target_include_directories(${target} SYSTEM INTERFACE "${PROJECT_BINARY_DIR}/generated")
  target_link_libraries(${target} INTERFACE flatbuffers::flatbuffers)
endfunction()

# Tests of coroutines take twice as long to compile with optimisation, and their own speed does not matter. Others run
# kernels on the host: without optimisation they would take longer to run than they save.
function(simurgh_compile_as_test target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE simurgh_catch2 ${ARGN})
  simurgh_use_precompiled_headers(${target} test ${ARGN})
  get_target_property(uses_rpc ${target} SIMURGH_USES_RPC)
  if(uses_rpc AND NOT "simurgh_allocation_count" IN_LIST ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release,Sanitize>:-O0>)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# simurgh_test_library(name SOURCES ... [DEPS ...])
# Sources that several tests share. A test that links the library runs its cases.
function(simurgh_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  simurgh_compile_as_test(${name} ${ARG_DEPS})
endfunction()

# simurgh_test(name SOURCES ... [DEPS ...] [LABELS ...] [TIMEOUT seconds])
# A Catch2 program that CTest runs as one test, in the repository root. The default timeout is 600 s.
function(simurgh_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE simurgh_test_main)
  simurgh_compile_as_test(${name} ${ARG_DEPS})
  set(cases)
  if(CMAKE_CROSSCOMPILING)  # An emulator needs minutes for a case, or ignores the requests that it makes.
    set(cases ~[minutes]~[kernel])
  endif()
  add_test(NAME ${name} COMMAND ${name} ${cases} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    SKIP_RETURN_CODE 77 ENVIRONMENT "SIMURGH_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  # CTest starts long tests first, so that none runs alone at the end.
  foreach(label_and_cost acceptance=300 cluster=60 concurrency=30 property=20)
    string(REPLACE "=" ";" label_and_cost ${label_and_cost})
    list(GET label_and_cost 0 label)
    list(GET label_and_cost 1 cost)
    if(label IN_LIST ARG_LABELS)
      set_tests_properties(${name} PROPERTIES COST ${cost})
    endif()
  endforeach()
endfunction()
