#include "nn/cuda/gemm_library.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/system_library.h"
#include "nn/cuda/float16.h"

namespace simurgh::cuda {
namespace {

bool FindAll(void* library, CublasLt* lt) {
  return FindFunction(library, "cublasLtGetVersion", &lt->version) &&
         FindFunction(library, "cublasLtCreate", &lt->create) &&
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
         FindFunction(library, "cublasLtMatmulAlgoCheck", &lt->check) &&
         FindFunction(library, "cublasLtMatmul", &lt->matmul);
}

StatusOr<const CublasLt*> LoadOnce() {
  static CublasLt functions;
  SIMURGH_RETURN_IF_ERROR(LoadLibrary("cuBLASLt", "libcublasLt.so.13",
                                      [](void* library) { return FindAll(library, &functions); }));
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

// Answers of the library among which a choice is made.
constexpr int kAnswers = 8;

// Most plans that are kept. A batch needs one per product, and sizes of batches vary.
constexpr size_t kMaxPlans = 1024;

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

cudaDataType_t LtType(Element element) {
  return element == Element::kBf16  ? CUDA_R_16BF
         : element == Element::kF16 ? CUDA_R_16F
                                    : CUDA_R_32F;
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

ProductKind GemmLibrary::Shape::kind() const {
  return {.in = in,
          .out = out,
          .a_transposed = a_transposed,
          .b_transposed = b_transposed,
          .adds = adds,
          .epilogue = epilogue,
          .columns = columns,
          .others = a_transposed ? rows : depth,
          .batch = a_transposed ? depth : rows};
}

struct GemmLibrary::Layouts {
  explicit Layouts(const CublasLt& library) : lt(library) {}
  Layouts(const Layouts&) = delete;
  Layouts& operator=(const Layouts&) = delete;
  ~Layouts() {
    for (cublasLtMatrixLayout_t layout : {a, b, c, d}) {
      if (layout != nullptr) lt.layout_destroy(layout);
    }
  }

  // cuBLASLt's matrices are in column-major order, so our columns are their rows.
  Status Create(const Shape& shape) {
    const auto create = [&](cublasLtMatrixLayout_t* layout, Element element, size_t columns,
                            size_t rows, size_t stride) {
      return LtStatus(
          lt.layout_create(layout, LtType(element), columns, rows, static_cast<int64_t>(stride)),
          "MatrixLayoutCreate");
    };
    const size_t n = shape.columns;
    const size_t m = shape.rows;
    const size_t k = shape.depth;
    SIMURGH_RETURN_IF_ERROR(create(&a, shape.in, shape.b_transposed ? k : n,
                                   shape.b_transposed ? n : k, shape.b_stride));
    SIMURGH_RETURN_IF_ERROR(create(&b, shape.in, shape.a_transposed ? m : k,
                                   shape.a_transposed ? k : m, shape.a_stride));
    SIMURGH_RETURN_IF_ERROR(create(&c, shape.out, n, m, shape.c_stride));
    return create(&d, shape.out, n, m, shape.d_stride);
  }

  const CublasLt& lt;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatrixLayout_t d = nullptr;
};

struct GemmLibrary::Plan {
  explicit Plan(const CublasLt& library) : lt(library), layouts(library) {}
  ~Plan() {
    if (desc != nullptr) lt.desc_destroy(desc);
  }

  template <typename Value>
  Status Set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    return LtStatus(lt.desc_set(desc, attribute, static_cast<const void*>(&value), sizeof(value)),
                    "MatmulDescSetAttribute");
  }

  const CublasLt& lt;
  cublasLtMatmulDesc_t desc = nullptr;
  Layouts layouts;
  cublasLtMatmulAlgo_t algorithm{};
};

struct GemmLibrary::KeptPlan {
  Shape shape;
  std::unique_ptr<Plan> plan;  // Null: no algorithm.
};

GemmLibrary::GemmLibrary(const CublasLt& lt, Options options)
    : lt_(lt), options_(std::move(options)) {}

StatusOr<std::unique_ptr<GemmLibrary>> GemmLibrary::Create(const CublasLt& lt, Options options) {
  std::unique_ptr<GemmLibrary> library(new GemmLibrary(lt, std::move(options)));
  SIMURGH_RETURN_IF_ERROR(LtStatus(lt.create(&library->handle_), "Create"));
  library->workspace_ = library->options_.allocate(kWorkspaceBytes);
  if (library->workspace_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("cuBLASLt: no memory for a workspace of ",
                                                     kWorkspaceBytes, " bytes on the device"));
  }
  return library;
}

GemmLibrary::~GemmLibrary() {
  plans_.clear();
  if (handle_ != nullptr) lt_.destroy(handle_);
}

template <typename T, typename Out>
StatusOr<GemmLibrary::Outcome> GemmLibrary::Multiply(const Gemm<T, Out>& gemm,
                                                     cudaStream_t stream) {
  const auto element = []<typename U>(U) {
    return std::is_same_v<U, float>      ? Element::kF32
           : std::is_same_v<U, Bfloat16> ? Element::kBf16
                                         : Element::kF16;
  };
  const bool uses_tf32 = std::is_same_v<T, float> && options_.precision == ComputePrecision::kTf32;
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
                      .in = uses_tf32 ? Element::kTf32 : element(T{}),
                      .out = element(Out{}),
                      .epilogue = gemm.epilogue,
                      .asked_batch = 0,
                      .algorithm = 0},
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
  Shape& shape = call.shape;
  const Epilogue epilogue = shape.epilogue;
  const std::optional<ProductChoice> choice =
      options_.choose ? options_.choose(shape.kind()) : std::nullopt;
  shape.asked_batch = choice ? choice->batch : shape.batch();
  const bool fuses = !choice || choice->fuses;
  if (epilogue != Epilogue::kNone && fuses && CanFuse(call)) {
    shape.algorithm = choice ? choice->algorithm : 0;
    SIMURGH_ASSIGN_OR_RETURN(Plan* const fused, PlanOf(call));
    if (fused != nullptr) {
      SIMURGH_RETURN_IF_ERROR(Enqueue(call, *fused, stream));
      if (epilogue == Epilogue::kBiasReluMask) call.mask->written = true;
      return Outcome::kFused;
    }
  }
  shape.epilogue = Epilogue::kNone;
  shape.aux_stride = 0;
  shape.algorithm = choice && (epilogue == Epilogue::kNone || !fuses) ? choice->algorithm : 0;
  SIMURGH_ASSIGN_OR_RETURN(Plan* const plain, PlanOf(call));
  if (plain == nullptr) return Outcome::kNotTaken;
  SIMURGH_RETURN_IF_ERROR(Enqueue(call, *plain, stream));
  return epilogue == Epilogue::kNone ? Outcome::kFused : Outcome::kPlain;
}

bool GemmLibrary::CanFuse(const Call& call) {
  const auto misaligned = [](const void* data) { return AlignmentOf(data) < kEpilogueAlignment; };
  if (misaligned(call.vector) || misaligned(call.aux)) {
    Warn(call.shape.kind(), "the epilogue's memory is not aligned");
    return false;
  }
  if (call.shape.epilogue == Epilogue::kReluBackward && !call.mask->written) {
    Warn(call.shape.kind(), "the forward pass wrote no mask");
    return false;
  }
  return true;
}

void GemmLibrary::Warn(const ProductKind& kind, const char* reason) {
  ProductKind logged = kind;
  logged.batch = 0;
  if (!logged_.insert(logged).second) return;
  spdlog::warn("dense network: {}: product=\"{}\"; {}", reason, ToString(kind),
               kind.epilogue == Epilogue::kNone ? "a slow kernel computes it"
                                                : "a kernel computes its epilogue");
}

StatusOr<GemmLibrary::Plan*> GemmLibrary::PlanOf(const Call& call) {
  const auto found = plan_of_.find(call.shape);
  if (found != plan_of_.end()) {
    plans_.splice(plans_.begin(), plans_, found->second);
    return found->second->plan.get();
  }
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, MakePlan(call));
  if (plans_.size() == kMaxPlans) {
    plan_of_.erase(plans_.back().shape);
    plans_.pop_back();
  }
  plans_.push_front({call.shape, std::move(plan)});
  plan_of_[call.shape] = plans_.begin();
  return plans_.front().plan.get();
}

StatusOr<std::unique_ptr<GemmLibrary::Plan>> GemmLibrary::MakePlan(const Call& call) {
  const Shape& shape = call.shape;
  auto plan = std::make_unique<Plan>(lt_);
  const cublasComputeType_t compute =
      shape.in == Element::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  SIMURGH_RETURN_IF_ERROR(
      LtStatus(lt_.desc_create(&plan->desc, compute, CUDA_R_32F), "MatmulDescCreate"));
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_TRANSA, operation(shape.b_transposed)));
  SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_TRANSB, operation(shape.a_transposed)));
  SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_EPILOGUE, LtEpilogue(shape.epilogue)));
  if (HasVector(shape.epilogue)) {
    SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, LtType(shape.out)));
    SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.vector));
  }
  if (HasAux(shape.epilogue)) {
    SIMURGH_RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux));
    SIMURGH_RETURN_IF_ERROR(
        plan->Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<int64_t>(shape.aux_stride)));
  }
  SIMURGH_RETURN_IF_ERROR(plan->layouts.Create(shape));
  SIMURGH_ASSIGN_OR_RETURN(const bool found, ChooseAlgorithm(shape, *plan));
  if (found) return plan;
  Warn(shape.kind(), "cuBLASLt has no algorithm");
  return std::unique_ptr<Plan>();
}

StatusOr<bool> GemmLibrary::ChooseAlgorithm(const Shape& shape, Plan& plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  SIMURGH_RETURN_IF_ERROR(LtStatus(lt_.preference_create(&preference), "PreferenceCreate"));
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        decltype(lt_.preference_destroy)>
      owned(preference, lt_.preference_destroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return LtStatus(lt_.preference_set(preference, attribute, &value, sizeof(value)),
                    "PreferenceSetAttribute");
  };
  SIMURGH_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
  // Adds partial sums in f32; in-place reduction would use the output's type.
  const uint32_t reductions =
      shape.out == Element::kF32
          ? CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
          : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  SIMURGH_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions));
  SIMURGH_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.b_alignment));
  SIMURGH_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.a_alignment));
  SIMURGH_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.c_alignment));
  SIMURGH_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.d_alignment));

  std::array<cublasLtMatmulHeuristicResult_t, kAnswers> answers{};
  // NOT_SUPPORTED means that no algorithm exists.
  const auto ask = [&](const Layouts& layouts) {
    int found = 0;
    const cublasStatus_t status =
        lt_.heuristic(handle_, plan.desc, layouts.a, layouts.b, layouts.c, layouts.d, preference,
                      kAnswers, answers.data(), &found);
    if (status != CUBLAS_STATUS_SUCCESS) found = 0;
    const auto failed = [](const auto& answer) { return answer.state != CUBLAS_STATUS_SUCCESS; };
    return static_cast<size_t>(std::remove_if(answers.begin(), answers.begin() + found, failed) -
                               answers.begin());
  };
  Shape asked = shape;
  asked.batch() = shape.asked_batch;
  if (asked != shape) {
    // The answer for a larger batch mostly holds for this one.
    Layouts layouts(lt_);
    SIMURGH_RETURN_IF_ERROR(layouts.Create(asked));
    const size_t found = ask(layouts);
    cublasLtMatmulHeuristicResult_t checked{};
    if (shape.algorithm < found) {
      plan.algorithm = answers[shape.algorithm].algo;
      const Layouts& own = plan.layouts;
      if (lt_.check(handle_, plan.desc, own.a, own.b, own.c, own.d, &plan.algorithm, &checked) ==
              CUBLAS_STATUS_SUCCESS &&
          checked.workspaceSize <= kWorkspaceBytes) {
        return true;
      }
    }
  }
  const size_t found = ask(plan.layouts);
  if (found == 0) return false;
  plan.algorithm = answers[asked == shape && shape.algorithm < found ? shape.algorithm : 0].algo;
  return true;
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
  const Layouts& layouts = plan.layouts;
  return LtStatus(lt_.matmul(handle_, plan.desc, &alpha, call.b, layouts.a, call.a, layouts.b,
                             &beta, call.c, layouts.c, call.d, layouts.d, &plan.algorithm,
                             workspace_.get(), kWorkspaceBytes, stream),
                  "Matmul");
}

}  // namespace simurgh::cuda
