# How a module, a daemon, a schema and a test are declared.

# simurgh_library(name SOURCES ... [DEPS ...] [PRIVATE_DEPS ...])
# One module: target simurgh_<name>.
function(simurgh_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(simurgh_${name} STATIC ${ARG_SOURCES})
  target_compile_features(simurgh_${name} PUBLIC cxx_std_20)
  target_include_directories(simurgh_${name}
    PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}"
    PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(simurgh_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

# simurgh_executable(name SOURCES ... [DEPS ...])
# One program in build/<preset>/bin, with jemalloc unless a sanitizer owns the allocator.
function(simurgh_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  if(NOT SIMURGH_SANITIZE)
    target_link_libraries(${name} PRIVATE -Wl,--no-as-needed simurgh_jemalloc -Wl,--as-needed)
  endif()
endfunction()

# simurgh_plugin(name SOURCES ... [DEFINITIONS ...])
# A shared object of C99 for feature processing: build/<preset>/plugins/<name>.so.
function(simurgh_plugin name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEFINITIONS" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES PREFIX "" C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/plugins")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_compile_definitions(${name} PRIVATE ${ARG_DEFINITIONS})
endfunction()

# simurgh_flatbuffers(target SCHEMAS ...)
# Generates <schema>_generated.h beside the build; include it as "<folder of schema>/<name>_generated.h".
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

# simurgh_test(name SOURCES ... [DEPS ...] [LABELS ...] [TIMEOUT seconds])
# One Catch2 binary, one CTest test. Runs in the repository root.
function(simurgh_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${name} PRIVATE simurgh_test_main ${ARG_DEPS})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    SKIP_RETURN_CODE 77 ENVIRONMENT "SIMURGH_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
endfunction()
