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

// One sample of a feature with occurrences.
struct Sample {
  const PoolingInput& input;
  Occurrences occurrences;
  const float* weights;        // One per occurrence; null: all 1.
  std::span<uint32_t> argmax;  // (D); empty if not needed.

  size_t dim() const { return input.dim; }
  // Where the row of an occurrence begins among `rows`.
  template <typename T>
  T* row(std::span<T> rows, uint32_t occurrence) const {
    return rows.data() + input.row_positions[occurrence];
  }
};

void SumRows(const Sample& sample, Occurrences occurrences, std::span<const float> rows,
             float* sum) {
  CopyTo(sum, sample.row(rows, occurrences[0]), sample.dim());
  for (const uint32_t occurrence : occurrences.subspan(1)) {
    AddTo(sum, sample.row(rows, occurrence), sample.dim());
  }
}

void AddToRows(const Sample& sample, Occurrences occurrences, const float* gradient,
               std::span<float> rows) {
  for (const uint32_t occurrence : occurrences) {
    AddTo(sample.row(rows, occurrence), gradient, sample.dim());
  }
}

// A pooling has Pool(), which overwrites a block, and its adjoint Unpool(), which adds to the rows
// of a gradient. Unpool() returns whether the gradients that no row receives are finite.

struct SumPooling {
  static void Pool(const Sample& sample, std::span<const float> rows, std::span<float> block) {
    SumRows(sample, sample.occurrences, rows, block.data());
  }
  static bool Unpool(const Sample& sample, std::span<const float> block, std::span<float> rows) {
    AddToRows(sample, sample.occurrences, block.data(), rows);
    return true;
  }
};

// The sum times Kind::Factor(number of ids).
template <typename Kind>
struct ScaledPooling {
  static float FactorOf(const Sample& sample) {
    return Kind::Factor(static_cast<float>(sample.input.rule.ids_of(sample.occurrences.size())));
  }
  static void Pool(const Sample& sample, std::span<const float> rows, std::span<float> block) {
    SumRows(sample, sample.occurrences, rows, block.data());
    const float factor = FactorOf(sample);
    for (float& value : block) value *= factor;
  }
  static bool Unpool(const Sample& sample, std::span<const float> block, std::span<float> rows) {
    const float factor = FactorOf(sample);
    for (const uint32_t occurrence : sample.occurrences) {
      AddScaled(sample.row(rows, occurrence), block.data(), factor, sample.dim());
    }
    return true;
  }
};

struct MeanPooling : ScaledPooling<MeanPooling> {
  static float Factor(float ids) { return 1.0F / ids; }
};

struct SqrtNPooling : ScaledPooling<SqrtNPooling> {
  static float Factor(float ids) { return 1.0F / std::sqrt(ids); }
};

struct WeightedSumPooling {
  static void Pool(const Sample& sample, std::span<const float> rows, std::span<float> block) {
    if (sample.weights == nullptr) return SumPooling::Pool(sample, rows, block);
    std::ranges::fill(block, 0.0F);
    for (size_t i = 0; i < sample.occurrences.size(); ++i) {
      AddScaled(block.data(), sample.row(rows, sample.occurrences[i]), sample.weights[i],
                sample.dim());
    }
  }
  static bool Unpool(const Sample& sample, std::span<const float> block, std::span<float> rows) {
    if (sample.weights == nullptr) return SumPooling::Unpool(sample, block, rows);
    for (size_t i = 0; i < sample.occurrences.size(); ++i) {
      AddScaled(sample.row(rows, sample.occurrences[i]), block.data(), sample.weights[i],
                sample.dim());
    }
    return true;
  }
};

struct MaxPooling {
  static void Pool(const Sample& sample, std::span<const float> rows, std::span<float> block) {
    float* const largest = block.data();
    CopyTo(largest, sample.row(rows, sample.occurrences[0]), sample.dim());
    if (sample.argmax.empty()) return PoolAlone(sample, rows, largest);
    std::ranges::fill(sample.argmax, 0U);
    for (uint32_t i = 1; i < sample.occurrences.size(); ++i) {
      const float* candidate = sample.row(rows, sample.occurrences[i]);
      for (size_t d = 0; d < sample.dim(); ++d) {
        if (candidate[d] <= largest[d]) continue;
        largest[d] = candidate[d];
        sample.argmax[d] = i;
      }
    }
  }
  static bool Unpool(const Sample& sample, std::span<const float> block, std::span<float> rows) {
    for (size_t d = 0; d < sample.dim(); ++d) {
      sample.row(rows, sample.occurrences[sample.argmax[d]])[d] += block[d];
    }
    return true;
  }

 private:
  static void PoolAlone(const Sample& sample, std::span<const float> rows, float* largest) {
    for (const uint32_t occurrence : sample.occurrences.subspan(1)) {
      const float* candidate = sample.row(rows, occurrence);
      for (size_t d = 0; d < sample.dim(); ++d) {
        largest[d] = candidate[d] <= largest[d] ? largest[d] : candidate[d];
      }
    }
  }
};

struct RawPooling {
  static void Pool(const Sample& sample, std::span<const float> rows, std::span<float> block) {
    const auto sum = [&](size_t id, Occurrences of_id) {
      SumRows(sample, of_id, rows, block.data() + id * sample.dim());
    };
    const size_t used = ForEachId(sample.input.rule, sample.occurrences, sum);
    std::ranges::fill(block.subspan(used * sample.dim()), 0.0F);
  }
  static bool Unpool(const Sample& sample, std::span<const float> block, std::span<float> rows) {
    const auto add = [&](size_t id, Occurrences of_id) {
      AddToRows(sample, of_id, block.data() + id * sample.dim(), rows);
    };
    const size_t used = ForEachId(sample.input.rule, sample.occurrences, add);
    return AllFinite(block.subspan(used * sample.dim()));
  }
};

// Returns use(pooling) for the pooling of this kind.
template <typename Use>
auto WithPooling(Pooling kind, const Use& use) {
  switch (kind) {
    case Pooling::kSum:
      return use(SumPooling());
    case Pooling::kMean:
      return use(MeanPooling());
    case Pooling::kSqrtN:
      return use(SqrtNPooling());
    case Pooling::kWeightedSum:
      return use(WeightedSumPooling());
    case Pooling::kMax:
      return use(MaxPooling());
    case Pooling::kRaw:
      break;
  }
  return use(RawPooling());
}

Sample SampleOf(const PoolingInput& input, size_t sample) {
  return {
      input, input.feature.sample(sample), WeightsOf(input.feature, sample),
      input.argmax.empty() ? input.argmax : input.argmax.subspan(sample * input.dim, input.dim)};
}

// Calls visit(sample, its block) for samples of an input from `first` on, whose blocks are in
// `blocks`.
template <typename T, typename Visit>
void ForEachSample(const PoolingInput& input, size_t first, MatrixView<T> blocks,
                   const Visit& visit) {
  for (size_t row = 0; row < blocks.rows(); ++row) {
    const std::span<T> block = blocks.row(row);
    PrefetchAfter(block.data(), block.size());
    visit(SampleOf(input, first + row), block);
  }
}

void PoolSamples(const PoolingInput& input, std::span<const float> rows, size_t first,
                 MatrixView<float> blocks) {
  WithPooling(input.rule.kind, [&](auto pooling) {
    ForEachSample(input, first, blocks, [&](const Sample& sample, std::span<float> block) {
      if (sample.occurrences.empty()) {
        std::ranges::fill(block, 0.0F);
      } else {
        pooling.Pool(sample, rows, block);
      }
    });
  });
}

// Returns whether the gradients that no row receives are finite.
bool UnpoolSamples(const PoolingInput& input, size_t first, MatrixView<const float> blocks,
                   std::span<float> row_gradients) {
  return WithPooling(input.rule.kind, [&](auto pooling) {
    bool is_finite = true;
    ForEachSample(input, first, blocks, [&](const Sample& sample, std::span<const float> block) {
      const bool is_sample_finite = sample.occurrences.empty()
                                        ? AllFinite(block)
                                        : pooling.Unpool(sample, block, row_gradients);
      if (!is_sample_finite) is_finite = false;
    });
    return is_finite;
  });
}

bool FitsArgmax(const PoolingInput& input) {
  const size_t samples = input.feature.offsets.size() - 1;
  return input.argmax.size() == (input.rule.kind == Pooling::kMax ? samples * input.dim : 0);
}

// Calls visit(input, first sample, blocks of samples) for `at_once` samples after the other, and
// for all inputs.
template <typename T, typename Visit>
void ForEachBlock(std::span<const PoolingInput> inputs, size_t first, MatrixView<T> matrix,
                  size_t at_once, const Visit& visit) {
  for (const PoolingInput& input : inputs) {
    SIMURGH_CHECK_LE(first + matrix.rows() + 1, input.feature.offsets.size());
    SIMURGH_CHECK_LE(input.first_column + input.rule.width(input.dim), matrix.columns());
  }
  for (size_t row = 0; row < matrix.rows(); row += at_once) {
    const auto samples = matrix.Rows(row, std::min(at_once, matrix.rows() - row));
    for (const PoolingInput& input : inputs) {
      visit(input, first + row, samples.Columns(input.first_column, input.rule.width(input.dim)));
    }
  }
}

}  // namespace

void Pool(std::span<const PoolingInput> inputs, std::span<const float> rows, size_t first,
          MatrixView<float> pooled) {
  for (const PoolingInput& input : inputs) SIMURGH_CHECK(input.argmax.empty() || FitsArgmax(input));
  ForEachBlock(inputs, first, pooled, kSamplesAtOnce,
               [rows](const PoolingInput& input, size_t sample, MatrixView<float> blocks) {
                 PoolSamples(input, rows, sample, blocks);
               });
}

bool Unpool(std::span<const PoolingInput> inputs, size_t first, MatrixView<const float> gradients,
            std::span<float> row_gradients) {
  for (const PoolingInput& input : inputs) SIMURGH_CHECK(FitsArgmax(input));
  bool is_finite = true;
  // Inputs that share rows add to them by sample.
  ForEachBlock(inputs, first, gradients, inputs.size() == 1 ? kSamplesAtOnce : 1,
               [&](const PoolingInput& input, size_t sample, MatrixView<const float> blocks) {
                 if (!UnpoolSamples(input, sample, blocks, row_gradients)) is_finite = false;
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
