#pragma once

#include <cublasLt.h>

#include "simurgh/base/status.h"

namespace simurgh::cuda {

// Functions of cuBLASLt, resolved at run time: a program built with CUDA also starts without it.
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

  // Loads the library on the first call; it stays loaded. Errors: NOT_FOUND if not installed.
  // Threads: any.
  static StatusOr<const CublasLt*> Load();
};

}  // namespace simurgh::cuda
