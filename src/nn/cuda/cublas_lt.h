#pragma once

#include <cublasLt.h>

#include "simurgh/base/status.h"

namespace simurgh::cuda {

// The functions of cuBLASLt, found when a device is first used: so that a program that was built
// with CUDA starts where the library is not installed.
struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;

  // The library stays loaded. Errors: NOT_FOUND where there is none.
  // Threads: any.
  static StatusOr<const CublasLt*> Load();
};

}  // namespace simurgh::cuda
