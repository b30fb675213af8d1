#include "nn/cuda/gemm_library.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "nn/cuda/cuda_error.h"
#include "nn/cuda/float16.h"
#include "simurgh/base/status.h"
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

namespace {

// NVIDIA's recommendation for Hopper; older devices need 4 MiB.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// Alignment of fresh allocations; cuBLASLt does not use a larger one.
constexpr uint32_t kMaxAlignment = 256;

// Alignment of an epilogue's vectors in bytes.
constexpr uint32_t kVectorAlignment = 16;

Status LtStatus(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cuBLASLt: ", what, " failed with status ", static_cast<int>(status)));
}

uint32_t AlignmentOf(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address == 0) return kMaxAlignment;
  return std::min(kMaxAlignment, uint32_t{1} << std::min(std::countr_zero(address), 30));
}

cublasLtEpilogue_t LtEpilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kBiasRelu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::kBiasReluMask:
      return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    case Epilogue::kReluBackward:
      return CUBLASLT_EPILOGUE_DRELU;
    case Epilogue::kBiasGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kGeluBackward:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kBiasGradient:
      return CUBLASLT_EPILOGUE_BGRADA;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool HasMask(Epilogue epilogue) {
  return epilogue == Epilogue::kBiasReluMask || epilogue == Epilogue::kReluBackward;
}

bool HasAux(Epilogue epilogue) {
  return HasMask(epilogue) || epilogue == Epilogue::kBiasGelu ||
         epilogue == Epilogue::kGeluBackward;
}

bool HasVector(Epilogue epilogue) {
  return epilogue != Epilogue::kNone && epilogue != Epilogue::kReluBackward &&
         epilogue != Epilogue::kGeluBackward;
}

}  // namespace

struct GemmLibrary::Plan {
  explicit Plan(const CublasLt& library) : lt(library) {}
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {a, b, c, d}) {
      if (layout != nullptr) lt.layout_destroy(layout);
    }
    if (desc != nullptr) lt.desc_destroy(desc);
  }

  template <typename Value>
  Status Set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    return LtStatus(lt.desc_set(desc, attribute, &value, sizeof(value)), "MatmulDescSetAttribute");
  }

  const CublasLt& lt;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatrixLayout_t d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

GemmLibrary::GemmLibrary(ComputePrecision precision) : precision_(precision) {}

StatusOr<std::unique_ptr<GemmLibrary>> GemmLibrary::Create(ComputePrecision precision) {
  std::unique_ptr<GemmLibrary> library(new GemmLibrary(precision));
  SIMURGH_ASSIGN_OR_RETURN(library->lt_, CublasLt::Load());
  SIMURGH_RETURN_IF_ERROR(LtStatus(library->lt_->create(&library->handle_), "Create"));
  SIMURGH_RETURN_IF_ERROR(
      CudaStatus(cudaMalloc(&library->workspace_, kWorkspaceBytes), "cuBLASLt's workspace"));
  return library;
}

GemmLibrary::~GemmLibrary() {
  plans_.clear();
  if (workspace_ != nullptr) cudaFree(workspace_);
  if (handle_ != nullptr) lt_->destroy(handle_);
}

template <typename T, typename Out>
StatusOr<GemmLibrary::Outcome> GemmLibrary::Multiply(const Gemm<T, Out>& gemm,
                                                     cudaStream_t stream) {
  const auto element = []<typename U>(U) {
    return std::is_same_v<U, float>      ? Element::kFloat
           : std::is_same_v<U, Bfloat16> ? Element::kBfloat16
                                         : Element::kFloat16;
  };
  const Matrix<const Out> c = gemm.beta == 0.0F ? Matrix<const Out>(gemm.d) : gemm.c;
  Call call{.shape = {.columns = gemm.d.columns,
                      .rows = gemm.d.rows,
                      .depth = gemm.depth,
                      .a_stride = gemm.a.stride,
                      .b_stride = gemm.b.stride,
                      .c_stride = c.stride,
                      .d_stride = gemm.d.stride,
                      .aux_stride = 0,
                      .a_alignment = AlignmentOf(gemm.a.data),
                      .b_alignment = AlignmentOf(gemm.b.data),
                      .c_alignment = AlignmentOf(c.data),
                      .d_alignment = AlignmentOf(gemm.d.data),
                      .a_transposed = gemm.a_transposed,
                      .b_transposed = gemm.b_transposed,
                      .adds = gemm.beta != 0.0F,
                      .in = element(T{}),
                      .out = element(Out{}),
                      .epilogue = gemm.epilogue},
            .a = gemm.a.data,
            .b = gemm.b.data,
            .c = c.data,
            .d = gemm.d.data,
            .vector = gemm.bias,
            .mask = gemm.mask};
  if (gemm.epilogue == Epilogue::kBiasGradient) call.vector = gemm.bias_gradient;
  if (HasMask(gemm.epilogue)) {
    call.aux = gemm.mask->bits;
    call.shape.aux_stride = gemm.mask->row_bits;
  } else if (HasAux(gemm.epilogue)) {
    call.aux = gemm.gelu_input.data;
    call.shape.aux_stride = gemm.gelu_input.stride;
  }
  return Multiply(call, stream);
}

template StatusOr<GemmLibrary::Outcome> GemmLibrary::Multiply(const Gemm<float, float>&,
                                                              cudaStream_t);
template StatusOr<GemmLibrary::Outcome> GemmLibrary::Multiply(const Gemm<Bfloat16, Bfloat16>&,
                                                              cudaStream_t);
template StatusOr<GemmLibrary::Outcome> GemmLibrary::Multiply(const Gemm<Bfloat16, float>&,
                                                              cudaStream_t);
template StatusOr<GemmLibrary::Outcome> GemmLibrary::Multiply(const Gemm<Float16, Float16>&,
                                                              cudaStream_t);
template StatusOr<GemmLibrary::Outcome> GemmLibrary::Multiply(const Gemm<Float16, float>&,
                                                              cudaStream_t);

StatusOr<GemmLibrary::Outcome> GemmLibrary::Multiply(Call call, cudaStream_t stream) {
  Epilogue& epilogue = call.shape.epilogue;
  const bool misaligned = call.vector != nullptr && AlignmentOf(call.vector) < kVectorAlignment;
  const bool no_mask = epilogue == Epilogue::kReluBackward && !call.mask->written;
  if (epilogue != Epilogue::kNone && !misaligned && !no_mask) {
    SIMURGH_ASSIGN_OR_RETURN(Plan* const fused, PlanOf(call));
    if (fused != nullptr) {
      SIMURGH_RETURN_IF_ERROR(Enqueue(call, *fused, stream));
      if (epilogue == Epilogue::kBiasReluMask) call.mask->written = true;
      return Outcome::kFused;
    }
  }
  const bool has_epilogue = std::exchange(epilogue, Epilogue::kNone) != Epilogue::kNone;
  call.shape.aux_stride = 0;
  SIMURGH_ASSIGN_OR_RETURN(Plan* const plain, PlanOf(call));
  if (plain == nullptr) return Outcome::kNotTaken;
  SIMURGH_RETURN_IF_ERROR(Enqueue(call, *plain, stream));
  return has_epilogue ? Outcome::kPlain : Outcome::kFused;
}

StatusOr<GemmLibrary::Plan*> GemmLibrary::PlanOf(const Call& call) {
  const auto found = plans_.find(call.shape);
  if (found != plans_.end()) return found->second.get();
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, MakePlan(call));
  return plans_.emplace(call.shape, std::move(plan)).first->second.get();
}

StatusOr<std::unique_ptr<GemmLibrary::Plan>> GemmLibrary::MakePlan(const Call& call) const {
  const Shape& shape = call.shape;
  const auto type = [](Element element) {
    return element == Element::kFloat      ? CUDA_R_32F
           : element == Element::kBfloat16 ? CUDA_R_16BF
                                           : CUDA_R_16F;
  };
  auto plan = std::make_unique<Plan>(*lt_);
  const cublasComputeType_t compute =
      precision_ == ComputePrecision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  SIMURGH_RETURN_IF_ERROR(
      LtStatus(lt_->desc_create(&plan->desc, compute, CUDA_R_32F), "MatmulDescCreate"));
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_TRANSA, operation(shape.b_transposed)));
  SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_TRANSB, operation(shape.a_transposed)));
  SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_EPILOGUE, LtEpilogue(shape.epilogue)));
  if (HasVector(shape.epilogue)) {
    SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type(shape.out)));
    SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.vector));
  }
  if (HasAux(shape.epilogue)) {
    SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux));
    SIMURGH_RETURN_IF_ERROR(
        plan->Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<int64_t>(shape.aux_stride)));
  }
  // In column-major order, our columns are rows.
  const auto layout = [&](cublasLtMatrixLayout_t* result, Element element, size_t columns,
                          size_t rows, size_t stride) {
    return LtStatus(
        lt_->layout_create(result, type(element), columns, rows, static_cast<int64_t>(stride)),
        "MatrixLayoutCreate");
  };
  const size_t n = shape.columns;
  const size_t m = shape.rows;
  const size_t k = shape.depth;
  SIMURGH_RETURN_IF_ERROR(layout(&plan->a, shape.in, shape.b_transposed ? k : n,
                                 shape.b_transposed ? n : k, shape.b_stride));
  SIMURGH_RETURN_IF_ERROR(layout(&plan->b, shape.in, shape.a_transposed ? m : k,
                                 shape.a_transposed ? k : m, shape.a_stride));
  SIMURGH_RETURN_IF_ERROR(layout(&plan->c, shape.out, n, m, shape.c_stride));
  SIMURGH_RETURN_IF_ERROR(layout(&plan->d, shape.out, n, m, shape.d_stride));

  cublasLtMatmulPreference_t preference = nullptr;
  SIMURGH_RETURN_IF_ERROR(LtStatus(lt_->preference_create(&preference), "PreferenceCreate"));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    lt_->preference_set(preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  // Adds partial sums in f32; in-place reduction would use the output's type.
  const uint32_t reductions =
      shape.out == Element::kFloat
          ? CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
          : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.b_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.a_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.c_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.d_alignment);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  // NOT_SUPPORTED means that no algorithm exists.
  const cublasStatus_t status = lt_->heuristic(handle_, plan->desc, plan->a, plan->b, plan->c,
                                               plan->d, preference, 1, &best, &found);
  lt_->preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) return std::unique_ptr<Plan>();
  plan->algorithm = best.algo;
  return plan;
}

Status GemmLibrary::Enqueue(const Call& call, Plan& plan, cudaStream_t stream) const {
  if (HasVector(call.shape.epilogue)) {
    SIMURGH_RETURN_IF_ERROR(plan.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.vector));
  }
  if (HasAux(call.shape.epilogue)) {
    SIMURGH_RETURN_IF_ERROR(plan.Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux));
  }
  const float alpha = 1.0F;
  const float beta = call.shape.adds ? 1.0F : 0.0F;
  return LtStatus(
      lt_->matmul(handle_, plan.desc, &alpha, call.b, plan.a, call.a, plan.b, &beta, call.c, plan.c,
                  call.d, plan.d, &plan.algorithm, workspace_, kWorkspaceBytes, stream),
      "Matmul");
}

}  // namespace simurgh::cuda
