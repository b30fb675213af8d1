#include "services/embedding_worker/batch_pooling.h"

#include <algorithm>

#include "simurgh/base/check.h"
#include "simurgh/feature/pooling.h"

namespace simurgh {
namespace {

// Their numbers, of all features, fit the first caches.
constexpr size_t kSamplesAtATime = 16;

std::vector<VectorCode> CodesOf(const BatchLayout& layout) {
  std::vector<VectorCode> codes;
  for (const auto precision : {VectorPrecision::kF32, VectorPrecision::kBf16, VectorPrecision::kF16,
                               VectorPrecision::kInt8}) {
    codes.emplace_back(precision, layout.vector_dims());
  }
  return codes;
}

// Memory for the numbers of a few samples, one for each thread.
MatrixView<float> Scratch(size_t columns) {
  thread_local std::vector<float> numbers;
  numbers.resize(std::max(numbers.size(), kSamplesAtATime * columns));
  return {numbers.data(), kSamplesAtATime, columns};
}

// Calls visit(first sample, samples) for all samples, a few at a time.
template <typename Visit>
void ForSamples(size_t samples, const Visit& visit) {
  for (size_t first = 0; first < samples; first += kSamplesAtATime) {
    visit(first, std::min(kSamplesAtATime, samples - first));
  }
}

}  // namespace

BatchPooling::BatchPooling(const BatchLayout& layout) : layout_(layout), codes_(CodesOf(layout)) {
  size_t columns = 0;
  for (size_t f = 0; f < layout_.features.size(); ++f) {
    maxima_columns_.push_back(columns);
    if (layout_.features[f].pooling.kind == Pooling::kMax) columns += layout_.dim(f);
  }
}

PoolingInput BatchPooling::InputOf(const BufferedBatch& batch, size_t feature) const {
  const FeatureView view = batch.batch().feature(feature);
  return {
      .rule = layout_.features[feature].pooling,
      .feature = view,
      .dim = layout_.dim(feature),
      .row_positions = std::span(batch.plan.row_positions).subspan(view.first_id, view.ids.size())};
}

template <typename T>
std::span<T> BatchPooling::MaximaOf(std::span<T> maxima, size_t feature, size_t batch_size,
                                    size_t first_sample, size_t samples) const {
  if (layout_.features[feature].pooling.kind != Pooling::kMax) return {};
  const size_t dim = layout_.dim(feature);
  return maxima.subspan(batch_size * maxima_columns_[feature] + first_sample * dim, samples * dim);
}

void BatchPooling::Pool(const BufferedBatch& batch, std::span<const float> rows,
                        const EmbeddingTarget& target, std::span<uint32_t> maxima) const {
  const VectorCode& code = CodeOf(target.precision);
  const size_t batch_size = batch.batch().batch_size;
  SIMURGH_CHECK_EQ(target.bytes.size(), batch_size * code.row_bytes());
  std::vector<PoolingInput> inputs;
  for (size_t f = 0; f < layout_.features.size(); ++f) inputs.push_back(InputOf(batch, f));
  const bool in_place = target.precision == VectorPrecision::kF32;
  const MatrixView<float> scratch = Scratch(code.columns());
  ForSamples(batch_size, [&](size_t first, size_t count) {
    const auto bytes = target.bytes.subspan(first * code.row_bytes(), count * code.row_bytes());
    const MatrixView<float> numbers =
        in_place ? MatrixView<float>(reinterpret_cast<float*>(bytes.data()), count, code.columns())
                 : scratch.Rows(0, count);
    for (size_t f = 0; f < inputs.size(); ++f) {
      inputs[f].first_sample = first;
      simurgh::Pool(inputs[f], rows,
                    numbers.Columns(layout_.features[f].first_column, layout_.width(f)),
                    MaximaOf(maxima, f, batch_size, first, count));
    }
    if (!in_place) code.Encode(numbers, /*factor=*/1, /*key=*/std::nullopt, bytes);
  });
}

bool BatchPooling::AddAll(const BufferedBatch& batch, const GradientSource& gradients,
                          std::span<const uint32_t> maxima, std::vector<bool>& dropped,
                          std::span<float> row_gradients) const {
  const VectorCode& code = CodeOf(gradients.precision);
  const size_t batch_size = batch.batch().batch_size;
  std::vector<PoolingInput> inputs;
  for (size_t f = 0; f < layout_.features.size(); ++f) inputs.push_back(InputOf(batch, f));
  const bool in_place = gradients.precision == VectorPrecision::kF32 && gradients.scale == 1;
  const MatrixView<float> scratch = Scratch(code.columns());
  bool clean = true;
  ForSamples(batch_size, [&](size_t first, size_t count) {
    const auto bytes = gradients.bytes.subspan(first * code.row_bytes(), count * code.row_bytes());
    if (!in_place) code.Decode(bytes, 1 / gradients.scale, scratch.Rows(0, count));
    const MatrixView<const float> numbers =
        in_place ? MatrixView<const float>(reinterpret_cast<const float*>(bytes.data()), count,
                                           code.columns())
                 : MatrixView<const float>(scratch.Rows(0, count));
    for (size_t f = 0; f < inputs.size(); ++f) {
      if (dropped[f]) continue;
      const auto block = numbers.Columns(layout_.features[f].first_column, layout_.width(f));
      if (!AllFinite(block)) {
        dropped[f] = true;
        clean = false;
      }
      // Once one has turned out not to be finite, all is done again without it.
      if (!clean) continue;
      inputs[f].first_sample = first;
      simurgh::Unpool(inputs[f], block, MaximaOf(maxima, f, batch_size, first, count),
                      row_gradients);
    }
  });
  return clean;
}

std::vector<size_t> BatchPooling::Unpool(const BufferedBatch& batch,
                                         const GradientSource& gradients,
                                         std::span<const uint32_t> maxima,
                                         std::span<float> row_gradients) const {
  SIMURGH_CHECK_EQ(gradients.bytes.size(),
                   batch.batch().batch_size * row_bytes(gradients.precision));
  std::vector<bool> dropped(layout_.features.size());
  do {
    std::ranges::fill(row_gradients, 0.0F);
  } while (!AddAll(batch, gradients, maxima, dropped, row_gradients));
  std::vector<size_t> features;
  for (size_t f = 0; f < dropped.size(); ++f) {
    if (dropped[f]) features.push_back(f);
  }
  return features;
}

}  // namespace simurgh
