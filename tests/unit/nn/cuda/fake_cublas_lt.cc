#include "tests/unit/nn/cuda/fake_cublas_lt.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "nn/cuda/float16.h"
#include "nn/formulas.h"

using simurgh::testing::FakeCublasLt;

struct cublasLtContext {
  FakeCublasLt* library;
};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cublasOperation_t transa = CUBLAS_OP_N;
  cublasOperation_t transb = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  int64_t aux_ld = 0;
  int32_t bias_type = -1;  // That of D.
};

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows;
  uint64_t columns;
  int64_t ld;
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace_bytes = 0;
  uint32_t reductions = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};  // A, B, C, D.
};

namespace simurgh::testing {
namespace {

thread_local FakeCublasLt* newest = nullptr;
std::atomic<int> live_objects = 0;

constexpr uint32_t kEpilogueAlignment = 16;

struct Problem {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;

  uint64_t depth() const { return desc.transa == CUBLAS_OP_N ? a.columns : a.rows; }
};

// What the caller promised when it asked, in an algorithm's data.
struct Promise {
  uint64_t index;
  uint64_t asked;
  uint64_t epilogue;
  uint64_t workspace_bytes;
  uint32_t alignments[4];
  uint32_t bias_alignment;
  uint32_t aux_alignment;
};
static_assert(sizeof(Promise) <= sizeof(cublasLtMatmulAlgo_t));

uint32_t AlignmentOf(const void* data, uint32_t limit) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  uint32_t alignment = 1;
  while (alignment < limit && address % (2 * alignment) == 0) alignment *= 2;
  return alignment;
}

size_t BytesOf(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

float Load(cudaDataType_t type, const void* data, size_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  if (type == CUDA_R_16BF) return cuda::ToFloat(static_cast<const cuda::Bfloat16*>(data)[i]);
  return cuda::ToFloat(static_cast<const cuda::Float16*>(data)[i]);
}

void Store(cudaDataType_t type, void* data, size_t i, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[i] = value;
  } else if (type == CUDA_R_16BF) {
    cuda::Assign(static_cast<cuda::Bfloat16*>(data)[i], value);
  } else {
    cuda::Assign(static_cast<cuda::Float16*>(data)[i], value);
  }
}

bool UsesBias(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_BGRADA;
}
bool UsesMask(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DRELU;
}
bool UsesGeluInput(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU;
}

// Returns why the header does not allow the product, or null.
const char* WhyInvalid(const Problem& p) {
  const auto op = [](const cublasLtMatrixLayoutOpaque_t& layout, cublasOperation_t operation) {
    return operation == CUBLAS_OP_N ? std::pair(layout.rows, layout.columns)
                                    : std::pair(layout.columns, layout.rows);
  };
  const auto [m, k] = op(p.a, p.desc.transa);
  const auto [k_of_b, n] = op(p.b, p.desc.transb);
  if (m == 0 || n == 0 || k == 0) return "an empty matrix";
  if (k != k_of_b) return "depths of A and B differ";
  if (p.d.rows != m || p.d.columns != n) return "D has another size than the product";
  if (p.c.rows != m || p.c.columns != n || p.c.type != p.d.type) return "C differs from D";
  if (p.a.type != p.b.type) return "types of A and B differ";
  if (p.d.type != CUDA_R_32F && p.d.type != p.a.type) return "type of D";
  if (p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type != CUDA_R_32F)
    return "tf32 of 16 bits";
  const cublasLtEpilogue_t epilogue = p.desc.epilogue;
  if (UsesBias(epilogue)) {
    if (p.desc.bias == nullptr) return "no bias";
    if (p.desc.bias_type != -1 && p.desc.bias_type != static_cast<int32_t>(p.d.type))
      return "type of the bias";
  }
  if (UsesMask(epilogue) || UsesGeluInput(epilogue)) {
    const int64_t multiple = UsesMask(epilogue) ? 128 : 8;
    if (p.desc.aux == nullptr) return "no auxiliary buffer";
    if (p.desc.aux_ld % multiple != 0) return "leading dimension of the auxiliary buffer";
    if (p.desc.aux_ld < static_cast<int64_t>(m)) return "auxiliary buffer has too few rows";
  }
  return nullptr;
}

void Compute(const Problem& p, const void* a, const void* b, float beta, const void* c, void* d) {
  const uint64_t m = p.d.rows;
  const uint64_t n = p.d.columns;
  const uint64_t depth = p.depth();
  const cublasLtEpilogue_t epilogue = p.desc.epilogue;
  // Operands in f32: op(A) by rows and op(B) by columns.
  std::vector<float> wide_a(m * depth);
  std::vector<float> wide_b(depth * n);
  for (uint64_t k = 0; k < depth; ++k) {
    for (uint64_t i = 0; i < m; ++i) {
      const uint64_t place = p.desc.transa == CUBLAS_OP_N ? i + k * p.a.ld : k + i * p.a.ld;
      wide_a[k * m + i] = Load(p.a.type, a, place);
    }
    for (uint64_t j = 0; j < n; ++j) {
      const uint64_t place = p.desc.transb == CUBLAS_OP_N ? k + j * p.b.ld : j + k * p.b.ld;
      wide_b[j * depth + k] = Load(p.b.type, b, place);
    }
  }
  std::vector<float> sums(m);
  for (uint64_t j = 0; j < n; ++j) {
    std::ranges::fill(sums, 0.0F);
    for (uint64_t k = 0; k < depth; ++k) {
      const float factor = wide_b[j * depth + k];
      const float* const column = wide_a.data() + k * m;
      for (uint64_t i = 0; i < m; ++i) sums[i] += column[i] * factor;
    }
    auto* const mask = static_cast<uint8_t*>(p.desc.aux);
    const uint64_t aux_column = j * static_cast<uint64_t>(p.desc.aux_ld);
    for (uint64_t i = 0; i < m; ++i) {
      float value = sums[i];
      if (beta != 0.0F) value += beta * Load(p.c.type, c, i + j * p.c.ld);
      if (UsesBias(epilogue) && epilogue != CUBLASLT_EPILOGUE_BGRADA) {
        value += Load(p.d.type, p.desc.bias, i);
      }
      if (epilogue == CUBLASLT_EPILOGUE_RELU_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS) {
        value = ReluFormula::Value(value);
      }
      if (UsesMask(epilogue)) {
        const uint64_t bit = aux_column + i;
        const auto flag = static_cast<uint8_t>(1U << bit % 8);
        if (epilogue == CUBLASLT_EPILOGUE_DRELU) {
          if ((mask[bit / 8] & flag) == 0) value = 0.0F;
        } else {
          mask[bit / 8] =
              static_cast<uint8_t>(value > 0.0F ? mask[bit / 8] | flag : mask[bit / 8] & ~flag);
        }
      }
      if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        Store(p.d.type, p.desc.aux, aux_column + i, value);
        value = GeluFormula::Value(value);
      } else if (epilogue == CUBLASLT_EPILOGUE_DGELU) {
        value = GeluFormula::Gradient(Load(p.d.type, p.desc.aux, aux_column + i), value);
      }
      Store(p.d.type, d, i + j * p.d.ld, value);
    }
    // The content of a mask's gap is undefined.
    for (uint64_t i = m;
         epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS && i < static_cast<uint64_t>(p.desc.aux_ld);
         ++i) {
      mask[(aux_column + i) / 8] |= static_cast<uint8_t>(1U << (aux_column + i) % 8);
    }
  }
  if (epilogue != CUBLASLT_EPILOGUE_BGRADA) return;
  for (uint64_t i = 0; i < m; ++i) {
    double sum = 0;
    for (uint64_t k = 0; k < depth; ++k) sum += double{wide_a[k * m + i]};
    Store(p.d.type, p.desc.bias, i, static_cast<float>(sum));
  }
}

// First and last byte of a matrix.
std::pair<const std::byte*, const std::byte*> Range(const cublasLtMatrixLayoutOpaque_t& layout,
                                                    const void* data) {
  const auto* const begin = static_cast<const std::byte*>(data);
  const uint64_t count = (layout.columns - 1) * static_cast<uint64_t>(layout.ld) + layout.rows;
  return {begin, begin + count * BytesOf(layout.type)};
}

}  // namespace

// The functions of the table.
struct FakeCalls {
  static cublasStatus_t Reject(FakeCublasLt* library, std::string reason) {
    library->rejections_.push_back(std::move(reason));
    return CUBLAS_STATUS_INVALID_VALUE;
  }

  static size_t Version() { return 130'000; }

  template <typename Object>
  static cublasStatus_t New(Object** result, const Object& object) {
    ++live_objects;
    *result = new Object(object);
    return CUBLAS_STATUS_SUCCESS;
  }
  template <typename Object>
  static cublasStatus_t Delete(Object* object) {
    --live_objects;
    delete object;
    return CUBLAS_STATUS_SUCCESS;
  }

  static cublasStatus_t Create(cublasLtHandle_t* handle) {
    return New(handle, cublasLtContext{newest});
  }
  static cublasStatus_t CreateDesc(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                   cudaDataType_t scale) {
    const bool known = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (!known || scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
    return New(desc, cublasLtMatmulDescOpaque_t{.compute = compute});
  }
  static cublasStatus_t CreateLayout(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                     uint64_t rows, uint64_t columns, int64_t ld) {
    const bool known = type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
    if (!known || ld < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
    return New(layout, cublasLtMatrixLayoutOpaque_t{type, rows, columns, ld});
  }
  static cublasStatus_t CreatePreference(cublasLtMatmulPreference_t* preference) {
    return New(preference, cublasLtMatmulPreferenceOpaque_t{});
  }

  template <typename Value>
  static cublasStatus_t Take(Value& target, const void* value, size_t bytes) {
    if (bytes != sizeof(target)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(static_cast<void*>(&target), value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  static cublasStatus_t SetDesc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                const void* value, size_t bytes) {
    const auto take = [&](auto& target) { return Take(target, value, bytes); };
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(desc->transa);
      case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(desc->transb);
      case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(desc->epilogue);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take(desc->bias);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return take(desc->aux);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return take(desc->aux_ld);
      case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return take(desc->bias_type);
      default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  static cublasStatus_t SetPreference(cublasLtMatmulPreference_t preference,
                                      cublasLtMatmulPreferenceAttributes_t attribute,
                                      const void* value, size_t bytes) {
    const auto take = [&](auto& target) { return Take(target, value, bytes); };
    switch (attribute) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return take(preference->workspace_bytes);
      case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return take(preference->reductions);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return take(preference->alignments[0]);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return take(preference->alignments[1]);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return take(preference->alignments[2]);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return take(preference->alignments[3]);
      default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
  }

  static cublasStatus_t Heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                  cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                  cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                  cublasLtMatmulPreference_t preference, int wanted,
                                  cublasLtMatmulHeuristicResult_t results[], int* found) {
    FakeCublasLt* const library = handle->library;
    const FakeCublasLt::Options& options = library->options_;
    *found = 0;
    if (wanted < 1) return Reject(library, "no answers wanted");
    if (const char* const reason = WhyInvalid({*desc, *a, *b, *c, *d})) {
      return Reject(library, reason);
    }
    const bool declined =
        (!options.fuse && desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT) ||
        (!options.fuse_masks && desc->epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
    if (!options.takes || declined) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    for (; *found < std::min(wanted, options.algorithms); ++*found) {
      Promise promise{.index = static_cast<uint64_t>(*found),
                      .asked = d->columns,
                      .epilogue = desc->epilogue,
                      .workspace_bytes = static_cast<uint64_t>(*found) << 20,
                      .alignments = {},
                      .bias_alignment = AlignmentOf(desc->bias, kEpilogueAlignment),
                      .aux_alignment = AlignmentOf(desc->aux, kEpilogueAlignment)};
      std::ranges::copy(preference->alignments, promise.alignments);
      if (promise.workspace_bytes > preference->workspace_bytes) break;
      cublasLtMatmulHeuristicResult_t& result = results[*found];
      result = {.workspaceSize = promise.workspace_bytes, .state = CUBLAS_STATUS_SUCCESS};
      std::memcpy(&result.algo, &promise, sizeof(promise));
    }
    return CUBLAS_STATUS_SUCCESS;
  }

  static cublasStatus_t Check(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm,
                              cublasLtMatmulHeuristicResult_t* result) {
    if (const char* const reason = WhyInvalid({*desc, *a, *b, *c, *d})) {
      return Reject(handle->library, reason);
    }
    Promise promise;
    std::memcpy(&promise, algorithm, sizeof(promise));
    if (handle->library->options_.strict_batches && promise.asked != d->columns) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *result = {.workspaceSize = promise.workspace_bytes, .state = CUBLAS_STATUS_SUCCESS};
    return CUBLAS_STATUS_SUCCESS;
  }

  static cublasStatus_t Matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                               const void* alpha, const void* a_data, cublasLtMatrixLayout_t a,
                               const void* b_data, cublasLtMatrixLayout_t b, const void* beta,
                               const void* c_data, cublasLtMatrixLayout_t c, void* d_data,
                               cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
                               void* workspace, size_t workspace_bytes, cudaStream_t /*stream*/) {
    FakeCublasLt* const library = handle->library;
    const Problem problem{*desc, *a, *b, *c, *d};
    if (const char* const reason = WhyInvalid(problem)) return Reject(library, reason);
    if (algorithm == nullptr) return Reject(library, "no algorithm");
    Promise promise;
    std::memcpy(&promise, algorithm, sizeof(promise));
    if (promise.epilogue != desc->epilogue) return Reject(library, "algorithm of another epilogue");
    if (workspace_bytes < promise.workspace_bytes) return Reject(library, "workspace too small");
    if (AlignmentOf(workspace, 256) < 256) return Reject(library, "alignment of the workspace");
    if (*static_cast<const float*>(alpha) != 1.0F) return Reject(library, "alpha");
    const void* const data[] = {a_data, b_data, c_data, d_data};
    for (size_t i = 0; i < std::size(data); ++i) {
      if (data[i] == nullptr) return Reject(library, "a null matrix");
      if (AlignmentOf(data[i], 256) < promise.alignments[i]) {
        return Reject(library, "a matrix below its promised alignment");
      }
    }
    if (UsesBias(desc->epilogue) &&
        AlignmentOf(desc->bias, kEpilogueAlignment) < promise.bias_alignment) {
      return Reject(library, "a bias below its promised alignment");
    }
    if ((UsesMask(desc->epilogue) || UsesGeluInput(desc->epilogue)) &&
        AlignmentOf(desc->aux, kEpilogueAlignment) < promise.aux_alignment) {
      return Reject(library, "an auxiliary buffer below its promised alignment");
    }
    const auto result = Range(*d, d_data);
    for (const auto& operand : {Range(*a, a_data), Range(*b, b_data)}) {
      if (operand.first < result.second && result.first < operand.second) {
        return Reject(library, "D overlaps an operand");
      }
    }
    const float factor = *static_cast<const float*>(beta);
    if (factor != 0.0F && c_data == d_data && c->ld != d->ld) {
      return Reject(library, "C is D with another leading dimension");
    }
    library->products_.push_back({desc->epilogue, promise.index, promise.asked, d->rows});
    std::function<void()> work = [=] { Compute(problem, a_data, b_data, factor, c_data, d_data); };
    if (library->options_.enqueue) {
      library->options_.enqueue(std::move(work));
    } else {
      work();
    }
    return CUBLAS_STATUS_SUCCESS;
  }
};

int FakeCublasLt::LiveObjects() { return live_objects; }

const cuda::CublasLt& FakeCublasLt::functions() {
  static constexpr cuda::CublasLt kFunctions{
      .version = FakeCalls::Version,
      .create = FakeCalls::Create,
      .destroy = FakeCalls::Delete<cublasLtContext>,
      .desc_create = FakeCalls::CreateDesc,
      .desc_destroy = FakeCalls::Delete<cublasLtMatmulDescOpaque_t>,
      .desc_set = FakeCalls::SetDesc,
      .layout_create = FakeCalls::CreateLayout,
      .layout_destroy = FakeCalls::Delete<cublasLtMatrixLayoutOpaque_t>,
      .preference_create = FakeCalls::CreatePreference,
      .preference_destroy = FakeCalls::Delete<cublasLtMatmulPreferenceOpaque_t>,
      .preference_set = FakeCalls::SetPreference,
      .heuristic = FakeCalls::Heuristic,
      .check = FakeCalls::Check,
      .matmul = FakeCalls::Matmul};
  newest = this;
  return kFunctions;
}

}  // namespace simurgh::testing
