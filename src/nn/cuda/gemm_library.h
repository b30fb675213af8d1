#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "base/status.h"
#include "config/service_config.h"
#include "nn/cuda/cuda_error.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/product_choices.h"

namespace simurgh::cuda {

// Functions of cuBLASLt, resolved at run time: a program built with CUDA also starts without it.
struct CublasLt {
  decltype(&cublasLtGetVersion) version;
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
  decltype(&cublasLtMatmulAlgoCheck) check;
  decltype(&cublasLtMatmul) matmul;

  // Loads the library on the first call; it stays loaded. Errors: NOT_FOUND if not installed.
  // Threads: any.
  static StatusOr<const CublasLt*> Load();
};

// Matrix products by cuBLASLt. Plans each shape once: Options::choose picks one of the library's
// answers, and whether the product fuses its epilogue. Logs shapes that are not taken or not fused
// for another reason.
//
// cuBLASLt's matrices are column-major, so it computes d^T = op(b)^T op(a)^T on our row-major
// memory: its A is our b, and its M is our number of columns. It fuses vectors along M only.
//
// Threads: one owner.
class GemmLibrary {
 public:
  struct Options {
    ComputePrecision precision = ComputePrecision::kF32;
    ChooseProduct choose;  // Empty: no choices.
    // Allocates the workspace. Returns null without memory.
    std::function<DeviceMemory(size_t bytes)> allocate;
  };

  // Lifetime: lt outlives this. Errors: RESOURCE_EXHAUSTED without memory for the workspace,
  // INTERNAL.
  static StatusOr<std::unique_ptr<GemmLibrary>> Create(const CublasLt& lt, Options options);
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
  // The key of a plan.
  struct Shape {
    size_t columns, rows, depth;
    size_t a_stride, b_stride, c_stride, d_stride;
    size_t aux_stride;  // Stride in bits (relu mask) or elements (gelu's input).
    uint32_t a_alignment, b_alignment, c_alignment, d_alignment;
    bool a_transposed, b_transposed, adds;
    Element in, out;
    Epilogue epilogue;
    // The algorithm is answer number `algorithm` for a batch of `asked_batch` samples.
    size_t asked_batch;
    uint32_t algorithm;

    auto operator<=>(const Shape&) const = default;

    size_t& batch() { return a_transposed ? depth : rows; }
    ProductKind kind() const;
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

  struct Layouts;
  struct Plan;
  struct KeptPlan;

  GemmLibrary(const CublasLt& lt, Options options);

  StatusOr<Outcome> Multiply(Call call, cudaStream_t stream);
  // Returns whether the product's memory allows its epilogue.
  bool CanFuse(const Call& call);
  // Logs once per shape why a kernel computes a product or its epilogue.
  void Warn(const ProductKind& kind, const char* reason);
  // Returns null without an algorithm.
  StatusOr<Plan*> PlanOf(const Call& call);
  StatusOr<std::unique_ptr<Plan>> MakePlan(const Call& call);
  // Chooses the plan's algorithm. Returns false if there is none.
  StatusOr<bool> ChooseAlgorithm(const Shape& shape, Plan& plan);
  Status Enqueue(const Call& call, Plan& plan, cudaStream_t stream) const;

  const CublasLt& lt_;
  const Options options_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceMemory workspace_ = NoMemory();
  std::list<KeptPlan> plans_;  // In order of use, the last used first.
  std::map<Shape, std::list<KeptPlan>::iterator> plan_of_;
  std::set<ProductKind> logged_;  // Kinds are stored with a batch of 0.
};

}  // namespace simurgh::cuda
