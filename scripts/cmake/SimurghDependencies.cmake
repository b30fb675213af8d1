# Third-party packages. scripts/bootstrap.sh installs them from Debian.

# For rpc. GLOBAL: projects that embed rpc call simurgh_flatbuffers() themselves.
find_package(Threads REQUIRED)
find_package(Boost 1.81 CONFIG REQUIRED)
find_package(absl REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_program(FLATC flatc REQUIRED)
find_package(FlatBuffers REQUIRED GLOBAL)

# Packages without a CMake file, or with one that requires too much (oneDNN requires OpenCL).
function(simurgh_system_library name header library)
  find_path(${name}_INCLUDE ${header} REQUIRED)
  find_library(${name}_LIBRARY ${library} REQUIRED)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${name} INTERFACE ${${name}_INCLUDE})
  target_link_libraries(${name} INTERFACE ${${name}_LIBRARY})
endfunction()

simurgh_system_library(simurgh_xxhash xxhash.h xxhash)
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

find_package(Boost 1.81 CONFIG REQUIRED COMPONENTS program_options)
find_package(yaml-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
find_package(hwy REQUIRED)
find_package(ZLIB REQUIRED)

simurgh_system_library(simurgh_zstd zstd.h zstd)
simurgh_system_library(simurgh_farmhash farmhash.h farmhash)
simurgh_system_library(simurgh_dnnl dnnl.hpp dnnl)
# Debian's oneDNN needs GCC's OpenMP runtime, not clang's.
find_library(SIMURGH_GOMP_LIBRARY libgomp.so.1 REQUIRED)
target_link_libraries(simurgh_dnnl INTERFACE ${SIMURGH_GOMP_LIBRARY})
# A library of headers.
find_path(SIMURGH_HNSWLIB_INCLUDE hnswlib/hnswlib.h REQUIRED)
add_library(simurgh_hnswlib INTERFACE IMPORTED GLOBAL)
target_include_directories(simurgh_hnswlib INTERFACE ${SIMURGH_HNSWLIB_INCLUDE})
# src/objects loads the library at its first use.
find_path(SIMURGH_CURL_INCLUDE curl/curl.h REQUIRED)
add_library(simurgh_curl_headers INTERFACE IMPORTED GLOBAL)
target_include_directories(simurgh_curl_headers INTERFACE ${SIMURGH_CURL_INCLUDE})
simurgh_system_library(simurgh_rdkafka librdkafka/rdkafka.h rdkafka)
simurgh_system_library(simurgh_uring liburing.h liburing.a)  # Static: servers need no package for it.
simurgh_system_library(simurgh_jemalloc jemalloc/jemalloc.h jemalloc)

# Catch2 2 is a header. Catch2 3 is a library, and an adapter has the names of Catch2 2.
find_package(Catch2 3 QUIET)
add_library(simurgh_catch2 INTERFACE IMPORTED GLOBAL)
if(Catch2_FOUND)
  target_include_directories(simurgh_catch2 INTERFACE "${PROJECT_SOURCE_DIR}/tests/support/catch2_3")
  target_link_libraries(simurgh_catch2 INTERFACE Catch2::Catch2)
endif()

# Programs link the CUDA runtime statically and load cuBLASLt and NCCL on first use, so they also start on machines
# without CUDA.
if(SIMURGH_CUDA)
  find_package(CUDAToolkit 13 REQUIRED)
  find_package(NCCL)
endif()
