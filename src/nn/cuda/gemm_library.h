#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "nn/cuda/gemm.h"
#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"

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

// Matrix products by cuBLASLt. Caches the heuristic's choice for each shape.
//
// cuBLASLt's matrices are column-major, so it computes d^T = op(b)^T op(a)^T on our row-major
// memory: its A is our b, and its M is our number of columns. It fuses vectors along M only.
//
// Threads: one owner.
class GemmLibrary {
 public:
  // Errors: NOT_FOUND without cuBLASLt, RESOURCE_EXHAUSTED without memory for its workspace,
  // INTERNAL.
  static StatusOr<std::unique_ptr<GemmLibrary>> Create(ComputePrecision precision);
  ~GemmLibrary();
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;

  enum class Outcome {
    kFused,     // Enqueued the product and its epilogue.
    kPlain,     // Enqueued the product without the epilogue.
    kNotTaken,  // No algorithm supports this shape.
  };

  // Errors: INTERNAL when cuBLASLt fails.
  template <typename T, typename Out>
  StatusOr<Outcome> Multiply(const Gemm<T, Out>& gemm, cudaStream_t stream);

 private:
  enum class Element { kFloat, kBfloat16, kFloat16 };

  // The key of a plan.
  struct Shape {
    size_t columns, rows, depth;
    size_t a_stride, b_stride, c_stride, d_stride;
    size_t aux_stride;  // In bits or elements.
    uint32_t a_alignment, b_alignment, c_alignment, d_alignment;
    bool a_transposed, b_transposed, adds;
    Element in, out;
    Epilogue epilogue;

    auto operator<=>(const Shape&) const = default;
  };

  // A product without its types.
  struct Call {
    Shape shape;
    const void* a = nullptr;
    const void* b = nullptr;
    const void* c = nullptr;
    void* d = nullptr;
    const void* vector = nullptr;  // The bias, or its gradient.
    ReluMask* mask = nullptr;
    void* aux = nullptr;  // The relu mask or gelu's input.
  };

  struct Plan;

  explicit GemmLibrary(ComputePrecision precision);

  StatusOr<Outcome> Multiply(Call call, cudaStream_t stream);
  // Returns null without an algorithm.
  StatusOr<Plan*> PlanOf(const Call& call);
  StatusOr<std::unique_ptr<Plan>> MakePlan(const Call& call) const;
  Status Enqueue(const Call& call, Plan& plan, cudaStream_t stream) const;

  const ComputePrecision precision_;
  const CublasLt* lt_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Shape, std::unique_ptr<Plan>> plans_;  // Null: no algorithm.
};

}  // namespace simurgh::cuda
