# Compiler flags, sanitizers, ccache and the output folder of programs.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "GCC ${CMAKE_CXX_COMPILER_VERSION} destroys temporaries in coroutines twice. "
    "Build with clang 19: cmake --preset release (scripts/bootstrap.sh installs it).")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)  # Libraries and programs share precompiled headers.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# No contraction to fused multiply-adds: processes compare results bit by bit.
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wno-unused-parameter;-Wno-missing-designated-field-initializers;-ffp-contract=off>")
if(NOT CMAKE_UNITY_BUILD)  # There, a local name may shadow one of another source.
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Wshadow>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Wthread-safety>)
  # Ninja and ccache compare the contents of precompiled headers. Clang would compare times.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp -Xclang -fno-validate-pch>")
  # CMake also includes the header by its full path, which ccache would compare.
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
  add_link_options(-fuse-ld=lld)
endif()

# The linker drops functions that nothing calls: an object of a unity build holds those of eight sources.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG -ffunction-sections -fdata-sections")
add_link_options($<$<CONFIG:Release>:LINKER:--gc-sections>)
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_C_FLAGS_SANITIZE "${CMAKE_CXX_FLAGS_SANITIZE}")

set(SIMURGH_SANITIZE "" CACHE STRING "Sanitizers in the syntax of -fsanitize=; empty for none")
if(SIMURGH_SANITIZE)
  add_compile_options(-fsanitize=${SIMURGH_SANITIZE} -fno-sanitize-recover=all)
  if(SIMURGH_SANITIZE MATCHES "undefined")
    # A fifth of the build's time. A null pointer crashes anyway; AddressSanitizer sees what is beyond an object.
    add_compile_options(-fno-sanitize=null,vptr,object-size)
  endif()
  add_link_options(-fsanitize=${SIMURGH_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache caches sources with precompiled headers only with this sloppiness. precompile.sh writes their digests. Names of
  # files are relative to the build's folder, so that clones in different folders share compiled files.
  foreach(language C CXX CUDA)
    set(CMAKE_${language}_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
        "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
  endforeach()
endif()

# Off by default: nvcc takes minutes, and machines without a GPU do not need the backend.
option(SIMURGH_CUDA "Build the CUDA backend of the dense network; needs nvcc of CUDA 13" OFF)
if(SIMURGH_CUDA)
  enable_language(CUDA)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 lacks it.
  # Warning 554: a conversion function that its `requires` clause excludes.
  # nvcc writes designators in an old form for the host's compiler. No register may spill to local memory.
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--diag-suppress=554;--expt-relaxed-constexpr;-fmad=false;-Xcompiler=-ffp-contract=off,-Wno-gnu-designator;-Werror=all-warnings;-Xptxas=--warn-on-spills,--warning-as-error>")
  # scripts/gpu_check.sh packs programs with their libraries, which also find one another.
  set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
  add_link_options(LINKER:--disable-new-dtags)
endif()
