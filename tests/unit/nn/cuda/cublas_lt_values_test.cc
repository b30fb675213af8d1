#include <type_traits>

#include <cublasLt.h>

// The values of the fake header are those of the real one, and its enumerations have its sizes.
#define VALUE(enumeration, name, value)                       \
  static_assert(std::is_same_v<decltype(name), enumeration>); \
  static_assert(sizeof(enumeration) == 4 && (name) == (value));
#include "tests/unit/nn/cuda/fake/cublas_lt_values.inc"
#undef VALUE
static_assert(sizeof(cublasLtMatmulAlgo_t) == 64);
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96);
