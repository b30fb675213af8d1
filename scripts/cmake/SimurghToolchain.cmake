# Compiler, language level, warnings, sanitizers and where binaries land.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "GCC ${CMAKE_CXX_COMPILER_VERSION} destroys temporaries in coroutines twice. "
    "Build with clang 19: cmake --preset release (scripts/bootstrap.sh installs it).")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# Sums must not depend on the optimizer's mood: results are compared bit by bit across processes.
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wno-unused-parameter;-Wno-missing-designated-field-initializers;-ffp-contract=off>")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Wthread-safety>)
  add_link_options(-fuse-ld=lld)
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_C_FLAGS_SANITIZE "${CMAKE_CXX_FLAGS_SANITIZE}")

set(SIMURGH_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them; empty for none")
if(SIMURGH_SANITIZE)
  add_compile_options(-fsanitize=${SIMURGH_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SIMURGH_SANITIZE})
endif()

# CUDA is optional, and off unless asked for (preset `cuda`): nvcc takes minutes, and programs without a
# device gain nothing by it. Kernels keep to the rule of sums above: no contraction.
option(SIMURGH_CUDA "Build the CUDA backend of the dense network; needs nvcc of CUDA 13" OFF)
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

if(SIMURGH_CUDA)
  enable_language(CUDA)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not know that nvcc has it.
  # 554: a conversion that its `requires` leaves out.
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--diag-suppress=554;--expt-relaxed-constexpr;-fmad=false;-Xcompiler=-ffp-contract=off>")
endif()
