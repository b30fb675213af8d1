#include "simurgh/data/pooling.h"

#include <algorithm>
#include <cmath>

#include "simurgh/base/check.h"
#include "simurgh/tensor/finite.h"

namespace simurgh {
namespace {

using Occurrences = std::span<const uint32_t>;

void AddTo(float* sum, const float* row, size_t dim) {
  for (size_t d = 0; d < dim; ++d) sum[d] += row[d];
}

void AddScaled(float* sum, const float* row, float factor, size_t dim) {
  for (size_t d = 0; d < dim; ++d) sum[d] += factor * row[d];
}

// The weights of a sample's occurrences; null: all 1.
const float* WeightsOf(const FeatureView& feature, size_t sample) {
  if (feature.weights.empty()) return nullptr;
  return feature.weights.data() + (feature.offsets[sample] - feature.offsets[0]);
}

// Factor of the sum, forward and backward.
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
    const float* first = row(occurrences[0]);
    std::copy(first, first + input.dim, sum);
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
    const float* first = row(occurrences[0]);
    std::copy(first, first + input.dim, largest);
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

  void Raw(Occurrences occurrences, std::span<const float> places) const {
    ForEachId(input.rule, occurrences,
              [&](size_t id, Occurrences of_id) { Sum(of_id, places.data() + id * input.dim); });
  }
};

size_t ArgmaxOf(const PoolingInput& input, size_t samples) {
  return input.rule.kind == Pooling::kMax ? samples * input.dim : 0;
}

void UnpoolSample(const UnpoolingInput& input, size_t sample, std::span<float> row_gradients) {
  const PoolingInput& pooling = input.pooling;
  const Backward backward{pooling, row_gradients};
  const std::span<const float> block = input.gradient.row(sample);
  const Occurrences occurrences = pooling.feature.sample(pooling.first_sample + sample);
  if (occurrences.empty()) return;
  switch (pooling.rule.kind) {
    case Pooling::kSum:
      return backward.Sum(occurrences, block.data());
    case Pooling::kMean:
    case Pooling::kSqrtN:
      return backward.ScaledSum(occurrences, block.data());
    case Pooling::kWeightedSum:
      return backward.WeightedSum(
          occurrences, WeightsOf(pooling.feature, pooling.first_sample + sample), block.data());
    case Pooling::kMax:
      return backward.Max(occurrences, block.data(), input.argmax.data() + sample * pooling.dim);
    case Pooling::kRaw:
      return backward.Raw(occurrences, block);
  }
}

}  // namespace

void Pool(const PoolingInput& input, std::span<const float> rows, MatrixView<float> pooled,
          std::span<uint32_t> argmax) {
  SIMURGH_CHECK_EQ(pooled.columns(), input.rule.width(input.dim));
  if (!argmax.empty()) SIMURGH_CHECK_EQ(argmax.size(), ArgmaxOf(input, pooled.rows()));
  const Forward forward{input, rows};
  const size_t first = input.first_sample;
  for (size_t sample = 0; sample < pooled.rows(); ++sample) {
    const std::span<float> block = pooled.row(sample);
    const Occurrences occurrences = input.feature.sample(first + sample);
    if (occurrences.empty()) {
      std::ranges::fill(block, 0.0F);
      continue;
    }
    switch (input.rule.kind) {
      case Pooling::kSum:
        forward.Sum(occurrences, block.data());
        break;
      case Pooling::kMean:
      case Pooling::kSqrtN:
        forward.ScaledSum(occurrences, block.data());
        break;
      case Pooling::kWeightedSum:
        forward.WeightedSum(occurrences, WeightsOf(input.feature, first + sample), block.data());
        break;
      case Pooling::kMax:
        forward.Max(occurrences, block.data(),
                    argmax.empty() ? nullptr : argmax.data() + sample * input.dim);
        break;
      case Pooling::kRaw:
        forward.Raw(occurrences, block);
        break;
    }
  }
}

void Unpool(std::span<const UnpoolingInput> inputs, std::span<float> row_gradients) {
  const size_t samples = inputs.empty() ? 0 : inputs[0].gradient.rows();
  for (const UnpoolingInput& input : inputs) {
    SIMURGH_CHECK_EQ(input.gradient.rows(), samples);
    SIMURGH_CHECK_EQ(input.gradient.columns(), input.pooling.rule.width(input.pooling.dim));
    SIMURGH_CHECK_EQ(input.argmax.size(), ArgmaxOf(input.pooling, samples));
  }
  for (size_t sample = 0; sample < samples; ++sample) {
    for (const UnpoolingInput& input : inputs) UnpoolSample(input, sample, row_gradients);
  }
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
