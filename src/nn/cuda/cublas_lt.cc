#include "nn/cuda/cublas_lt.h"

#include "simurgh/base/system_library.h"

namespace simurgh::cuda {
namespace {

// The dynamic loader's search path, then the directory of CUDA's packages.
constexpr const char* kNames[] = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};

bool FindAll(void* library, CublasLt* lt) {
  return FindFunction(library, "cublasLtCreate", &lt->create) &&
         FindFunction(library, "cublasLtDestroy", &lt->destroy) &&
         FindFunction(library, "cublasLtMatmulDescCreate", &lt->desc_create) &&
         FindFunction(library, "cublasLtMatmulDescDestroy", &lt->desc_destroy) &&
         FindFunction(library, "cublasLtMatmulDescSetAttribute", &lt->desc_set) &&
         FindFunction(library, "cublasLtMatrixLayoutCreate", &lt->layout_create) &&
         FindFunction(library, "cublasLtMatrixLayoutDestroy", &lt->layout_destroy) &&
         FindFunction(library, "cublasLtMatmulPreferenceCreate", &lt->preference_create) &&
         FindFunction(library, "cublasLtMatmulPreferenceDestroy", &lt->preference_destroy) &&
         FindFunction(library, "cublasLtMatmulPreferenceSetAttribute", &lt->preference_set) &&
         FindFunction(library, "cublasLtMatmulAlgoGetHeuristic", &lt->heuristic) &&
         FindFunction(library, "cublasLtMatmul", &lt->matmul);
}

StatusOr<const CublasLt*> LoadOnce() {
  static CublasLt functions;
  SIMURGH_RETURN_IF_ERROR(
      LoadLibrary("cuBLASLt", kNames, [](void* library) { return FindAll(library, &functions); }));
  return &functions;
}

}  // namespace

StatusOr<const CublasLt*> CublasLt::Load() {
  static const StatusOr<const CublasLt*> loaded = LoadOnce();
  return loaded;
}

}  // namespace simurgh::cuda
