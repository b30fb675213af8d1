# Every third-party package, all of them Debian's (scripts/bootstrap.sh installs them).

# What rpc needs.
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(absl REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_program(FLATC flatc REQUIRED)
find_package(FlatBuffers REQUIRED GLOBAL)  # simurgh_flatbuffers is for whoever has this as a subfolder, too.

# Packages without a CMake file of their own, or with one that asks for more than they need (oneDNN: OpenCL).
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

find_package(Boost 1.81 REQUIRED COMPONENTS program_options)
find_package(yaml-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
find_package(hwy REQUIRED)
find_package(ZLIB REQUIRED)

simurgh_system_library(simurgh_zstd zstd.h zstd)
simurgh_system_library(simurgh_farmhash farmhash.h farmhash)
simurgh_system_library(simurgh_dnnl dnnl.hpp dnnl)
# The OpenMP runtime that Debian's oneDNN runs on, by its full name: clang's own is not the same.
find_library(SIMURGH_GOMP_LIBRARY libgomp.so.1 REQUIRED)
target_link_libraries(simurgh_dnnl INTERFACE ${SIMURGH_GOMP_LIBRARY})
simurgh_system_library(simurgh_gloo gloo/transport/context.h gloo)
simurgh_system_library(simurgh_jemalloc jemalloc/jemalloc.h jemalloc)

# The runtime is linked statically and cuBLASLt and NCCL found when a device is used: a program that was built with CUDA
# starts where none is installed.
if(SIMURGH_CUDA)
  find_package(CUDAToolkit 13 REQUIRED)
  find_package(NCCL)
endif()
