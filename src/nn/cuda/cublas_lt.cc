#include "nn/cuda/cublas_lt.h"

#include <string>

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace simurgh::cuda {
namespace {

// By the loader's search, then where CUDA's own packages put it.
constexpr const char* kNames[] = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool FindAll(void* library, CublasLt* lt) {
  return Find(library, "cublasLtCreate", &lt->create) &&
         Find(library, "cublasLtDestroy", &lt->destroy) &&
         Find(library, "cublasLtMatmulDescCreate", &lt->desc_create) &&
         Find(library, "cublasLtMatmulDescDestroy", &lt->desc_destroy) &&
         Find(library, "cublasLtMatmulDescSetAttribute", &lt->desc_set) &&
         Find(library, "cublasLtMatrixLayoutCreate", &lt->layout_create) &&
         Find(library, "cublasLtMatrixLayoutDestroy", &lt->layout_destroy) &&
         Find(library, "cublasLtMatmulPreferenceCreate", &lt->preference_create) &&
         Find(library, "cublasLtMatmulPreferenceDestroy", &lt->preference_destroy) &&
         Find(library, "cublasLtMatmulPreferenceSetAttribute", &lt->preference_set) &&
         Find(library, "cublasLtMatmulAlgoGetHeuristic", &lt->heuristic) &&
         Find(library, "cublasLtMatmul", &lt->matmul);
}

StatusOr<const CublasLt*> LoadOnce() {
  static CublasLt functions;
  std::string reason;
  for (const char* name : kNames) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      absl::StrAppend(&reason, reason.empty() ? "" : "; ", error == nullptr ? name : error);
    } else if (FindAll(library, &functions)) {
      return &functions;
    } else {
      absl::StrAppend(&reason, reason.empty() ? "" : "; ", name, " lacks a function");
      dlclose(library);
    }
  }
  return absl::NotFoundError(
      absl::StrCat("cuBLASLt cannot be loaded (", reason, "); add its folder to LD_LIBRARY_PATH"));
}

}  // namespace

StatusOr<const CublasLt*> CublasLt::Load() {
  static const StatusOr<const CublasLt*> loaded = LoadOnce();
  return loaded;
}

}  // namespace simurgh::cuda
