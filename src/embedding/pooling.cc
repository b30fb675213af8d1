#include "embedding/pooling.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/finite.h"

namespace simurgh {
namespace {

using Occurrences = std::span<const uint32_t>;

constexpr size_t kLine = 16;           // Floats of a cache line.
constexpr size_t kAhead = 32 * kLine;  // Far enough to hide a read from memory.

// Rows are copied and added by lines, then by floats.

void CopyTo(float* __restrict to, const float* __restrict row, size_t dim) {
  size_t d = 0;
  for (; d + kLine <= dim; d += kLine) std::memcpy(to + d, row + d, kLine * sizeof(float));
  for (; d < dim; ++d) to[d] = row[d];
}

void AddTo(float* __restrict sum, const float* __restrict row, size_t dim) {
  size_t d = 0;
  for (; d + kLine <= dim; d += kLine) {
    for (size_t i = 0; i < kLine; ++i) sum[d + i] += row[d + i];
  }
  for (; d < dim; ++d) sum[d] += row[d];
}

// Prefetches the block of a later sample: samples are side by side, but a block is too short for
// the processor to read ahead. Prefetching beyond the end is harmless.
void PrefetchAfter(const float* block, size_t width) {
  for (size_t d = 0; d < width; d += kLine) __builtin_prefetch(block + d + kAhead);
}

void AddScaled(float* sum, const float* row, float factor, size_t dim) {
  for (size_t d = 0; d < dim; ++d) sum[d] += factor * row[d];
}

// Returns the weights of a sample's occurrences; null: all 1.
const float* WeightsOf(const FeatureView& feature, size_t sample) {
  if (feature.weights.empty()) return nullptr;
  return feature.weights.data() + (feature.offsets[sample] - feature.offsets[0]);
}

// Returns the factor of the sum, forward and backward.
float FactorOf(const PoolingRule& rule, size_t occurrences) {
  const auto ids = static_cast<float>(rule.ids_of(occurrences));
  if (rule.kind == Pooling::kMean) return 1.0F / ids;
  if (rule.kind == Pooling::kSqrtN) return 1.0F / std::sqrt(ids);
  return 1.0F;
}

// Calls visit(id, its occurrences) for the ids of a sample with places in raw; returns their
// number.
template <typename Visit>
size_t ForEachId(const PoolingRule& rule, Occurrences occurrences, const Visit& visit) {
  const size_t used = std::min<size_t>(rule.ids_of(occurrences.size()), rule.length);
  for (size_t id = 0; id < used; ++id) {
    const size_t first = id * rule.rows_per_id;
    visit(id, occurrences.subspan(first,
                                  std::min<size_t>(rule.rows_per_id, occurrences.size() - first)));
  }
  return used;
}

// Pools one sample of a feature.
struct Forward {
  const PoolingInput& input;
  std::span<const float> rows;

  const float* row(uint32_t occurrence) const {
    return rows.data() + input.row_positions[occurrence];
  }

  // Requires occurrences.
  void Sum(Occurrences occurrences, float* sum) const {
    CopyTo(sum, row(occurrences[0]), input.dim);
    for (const uint32_t occurrence : occurrences.subspan(1)) {
      AddTo(sum, row(occurrence), input.dim);
    }
  }

  void ScaledSum(Occurrences occurrences, float* sum) const {
    Sum(occurrences, sum);
    const float factor = FactorOf(input.rule, occurrences.size());
    for (size_t d = 0; d < input.dim; ++d) sum[d] *= factor;
  }

  void WeightedSum(Occurrences occurrences, const float* weights, float* sum) const {
    if (weights == nullptr) return Sum(occurrences, sum);
    std::fill(sum, sum + input.dim, 0.0F);
    for (size_t i = 0; i < occurrences.size(); ++i) {
      AddScaled(sum, row(occurrences[i]), weights[i], input.dim);
    }
  }

  // argmax: null if not needed.
  void Max(Occurrences occurrences, float* largest, uint32_t* argmax) const {
    CopyTo(largest, row(occurrences[0]), input.dim);
    if (argmax == nullptr) return MaxAlone(occurrences.subspan(1), largest);
    std::fill(argmax, argmax + input.dim, 0U);
    for (uint32_t i = 1; i < occurrences.size(); ++i) {
      const float* candidate = row(occurrences[i]);
      for (size_t d = 0; d < input.dim; ++d) {
        if (candidate[d] <= largest[d]) continue;
        largest[d] = candidate[d];
        argmax[d] = i;
      }
    }
  }

  void MaxAlone(Occurrences occurrences, float* largest) const {
    for (const uint32_t occurrence : occurrences) {
      const float* candidate = row(occurrence);
      for (size_t d = 0; d < input.dim; ++d) {
        largest[d] = candidate[d] <= largest[d] ? largest[d] : candidate[d];
      }
    }
  }

  void Raw(Occurrences occurrences, std::span<float> places) const {
    const size_t used = ForEachId(input.rule, occurrences, [&](size_t id, Occurrences of_id) {
      Sum(of_id, places.data() + id * input.dim);
    });
    std::fill(places.begin() + static_cast<ptrdiff_t>(used * input.dim), places.end(), 0.0F);
  }
};

// The adjoint of Forward.
struct Backward {
  const PoolingInput& input;
  std::span<float> row_gradients;

  float* row(uint32_t occurrence) const {
    return row_gradients.data() + input.row_positions[occurrence];
  }

  void Sum(Occurrences occurrences, const float* gradient) const {
    for (const uint32_t occurrence : occurrences) AddTo(row(occurrence), gradient, input.dim);
  }

  void ScaledSum(Occurrences occurrences, const float* gradient) const {
    const float factor = FactorOf(input.rule, occurrences.size());
    for (const uint32_t occurrence : occurrences) {
      AddScaled(row(occurrence), gradient, factor, input.dim);
    }
  }

  void WeightedSum(Occurrences occurrences, const float* weights, const float* gradient) const {
    if (weights == nullptr) return Sum(occurrences, gradient);
    for (size_t i = 0; i < occurrences.size(); ++i) {
      AddScaled(row(occurrences[i]), gradient, weights[i], input.dim);
    }
  }

  void Max(Occurrences occurrences, const float* gradient, const uint32_t* argmax) const {
    for (size_t d = 0; d < input.dim; ++d) row(occurrences[argmax[d]])[d] += gradient[d];
  }

  // Returns whether the gradients of places without an id are finite.
  bool Raw(Occurrences occurrences, std::span<const float> places) const {
    const size_t used = ForEachId(input.rule, occurrences, [&](size_t id, Occurrences of_id) {
      Sum(of_id, places.data() + id * input.dim);
    });
    return AllFinite(places.subspan(used * input.dim));
  }
};

// Returns the argmax of a sample; empty if the input has none.
std::span<uint32_t> ArgmaxOf(const PoolingInput& input, size_t sample) {
  return input.argmax.empty() ? input.argmax : input.argmax.subspan(sample * input.dim, input.dim);
}

void PoolSample(const PoolingInput& input, std::span<const float> rows, size_t sample,
                std::span<float> block) {
  PrefetchAfter(block.data(), block.size());
  const Occurrences occurrences = input.feature.sample(sample);
  if (occurrences.empty()) {
    std::ranges::fill(block, 0.0F);
    return;
  }
  const Forward forward{input, rows};
  switch (input.rule.kind) {
    case Pooling::kSum:
      return forward.Sum(occurrences, block.data());
    case Pooling::kMean:
    case Pooling::kSqrtN:
      return forward.ScaledSum(occurrences, block.data());
    case Pooling::kWeightedSum:
      return forward.WeightedSum(occurrences, WeightsOf(input.feature, sample), block.data());
    case Pooling::kMax:
      return forward.Max(occurrences, block.data(), ArgmaxOf(input, sample).data());
    case Pooling::kRaw:
      return forward.Raw(occurrences, block);
  }
}

// Returns whether the gradients that no row receives are finite.
bool UnpoolSample(const PoolingInput& input, size_t sample, std::span<const float> block,
                  std::span<float> row_gradients) {
  PrefetchAfter(block.data(), block.size());
  const Occurrences occurrences = input.feature.sample(sample);
  if (occurrences.empty()) return AllFinite(block);
  const Backward backward{input, row_gradients};
  switch (input.rule.kind) {
    case Pooling::kSum:
      backward.Sum(occurrences, block.data());
      break;
    case Pooling::kMean:
    case Pooling::kSqrtN:
      backward.ScaledSum(occurrences, block.data());
      break;
    case Pooling::kWeightedSum:
      backward.WeightedSum(occurrences, WeightsOf(input.feature, sample), block.data());
      break;
    case Pooling::kMax:
      backward.Max(occurrences, block.data(), ArgmaxOf(input, sample).data());
      break;
    case Pooling::kRaw:
      return backward.Raw(occurrences, block);
  }
  return true;
}

bool FitsArgmax(const PoolingInput& input) {
  const size_t samples = input.feature.offsets.size() - 1;
  return input.argmax.size() == (input.rule.kind == Pooling::kMax ? samples * input.dim : 0);
}

// Calls visit(input, sample, block) by sample, then input.
template <typename T, typename Visit>
void ForEachBlock(std::span<const PoolingInput> inputs, size_t first, MatrixView<T> matrix,
                  const Visit& visit) {
  for (const PoolingInput& input : inputs) {
    SIMURGH_CHECK_LE(first + matrix.rows() + 1, input.feature.offsets.size());
    SIMURGH_CHECK_LE(input.first_column + input.rule.width(input.dim), matrix.columns());
  }
  for (size_t row = 0; row < matrix.rows(); ++row) {
    T* const numbers = matrix.row(row).data();
    for (const PoolingInput& input : inputs) {
      visit(input, first + row,
            std::span<T>(numbers + input.first_column, input.rule.width(input.dim)));
    }
  }
}

}  // namespace

void Pool(std::span<const PoolingInput> inputs, std::span<const float> rows, size_t first,
          MatrixView<float> pooled) {
  for (const PoolingInput& input : inputs) SIMURGH_CHECK(input.argmax.empty() || FitsArgmax(input));
  ForEachBlock(inputs, first, pooled,
               [rows](const PoolingInput& input, size_t sample, std::span<float> block) {
                 PoolSample(input, rows, sample, block);
               });
}

bool Unpool(std::span<const PoolingInput> inputs, size_t first, MatrixView<const float> gradients,
            std::span<float> row_gradients) {
  for (const PoolingInput& input : inputs) SIMURGH_CHECK(FitsArgmax(input));
  bool is_finite = true;
  ForEachBlock(inputs, first, gradients,
               [&](const PoolingInput& input, size_t sample, std::span<const float> block) {
                 if (!UnpoolSample(input, sample, block, row_gradients)) is_finite = false;
               });
  return is_finite;
}

size_t TrueLength(const PoolingRule& rule, const FeatureView& feature, size_t sample) {
  return std::min<size_t>(rule.ids_of(feature.sample(sample).size()), rule.length);
}

bool AllFinite(MatrixView<const float> matrix) {
  for (size_t row = 0; row < matrix.rows(); ++row) {
    if (!AllFinite(matrix.row(row))) return false;
  }
  return true;
}

}  // namespace simurgh
