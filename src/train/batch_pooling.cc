#include "simurgh/train/batch_pooling.h"

#include <algorithm>

#include "simurgh/base/check.h"
#include "simurgh/tensor/finite.h"

namespace simurgh {
namespace {

// The vectors of this number of samples fit the first caches of a processor.
constexpr size_t kSamplesAtATime = 16;

std::vector<VectorCodec> CodesOf(const BatchLayout& layout) {
  std::vector<VectorCodec> codes;
  for (const auto precision : {VectorPrecision::kF32, VectorPrecision::kBf16, VectorPrecision::kF16,
                               VectorPrecision::kInt8}) {
    codes.emplace_back(precision, layout.vector_dims());
  }
  return codes;
}

MatrixView<float> Scratch(size_t columns) {
  thread_local std::vector<float> numbers;
  numbers.resize(std::max(numbers.size(), kSamplesAtATime * columns));
  return {numbers.data(), kSamplesAtATime, columns};
}

// Calls visit(first sample, samples) for each block of samples.
template <typename Visit>
void ForSamples(size_t samples, const Visit& visit) {
  for (size_t first = 0; first < samples; first += kSamplesAtATime) {
    visit(first, std::min(kSamplesAtATime, samples - first));
  }
}

}  // namespace

BatchPooling::BatchPooling(const BatchLayout& layout)
    : layout_(layout), codecs_(CodesOf(layout)), features_of_tables_(layout.table_dims.size()) {
  size_t columns = 0;
  for (size_t f = 0; f < layout_.features.size(); ++f) {
    features_of_tables_[layout_.features[f].table].push_back(f);
    argmax_columns_.push_back(columns);
    if (layout_.features[f].pooling.kind == Pooling::kMax) columns += layout_.dim(f);
  }
}

std::vector<PoolingInput> BatchPooling::InputsOf(const BufferedBatch& batch) const {
  std::vector<PoolingInput> inputs;
  for (size_t f = 0; f < layout_.features.size(); ++f) {
    const FeatureView view = batch.batch().feature(f);
    inputs.push_back(
        {.rule = layout_.features[f].pooling,
         .feature = view,
         .dim = layout_.dim(f),
         .row_positions =
             std::span(batch.plan.row_positions).subspan(view.first_id, view.ids.size())});
  }
  return inputs;
}

template <typename T>
std::span<T> BatchPooling::ArgmaxOf(std::span<T> argmax, size_t feature, size_t batch_size,
                                    size_t first_sample, size_t samples) const {
  if (argmax.empty() || layout_.features[feature].pooling.kind != Pooling::kMax) return {};
  const size_t dim = layout_.dim(feature);
  return argmax.subspan(batch_size * argmax_columns_[feature] + first_sample * dim, samples * dim);
}

void BatchPooling::Pool(const BufferedBatch& batch, std::span<const float> rows,
                        const EmbeddingBuffer& embeddings, std::span<uint32_t> argmax) const {
  const VectorCodec& code = CodeOf(embeddings.precision);
  const size_t batch_size = batch.batch().batch_size;
  SIMURGH_CHECK_EQ(embeddings.bytes.size(), batch_size * code.row_bytes());
  std::vector<PoolingInput> inputs = InputsOf(batch);
  const bool in_place = embeddings.precision == VectorPrecision::kF32;
  const MatrixView<float> scratch = Scratch(code.columns());
  ForSamples(batch_size, [&](size_t first, size_t count) {
    const auto bytes = embeddings.bytes.subspan(first * code.row_bytes(), count * code.row_bytes());
    const MatrixView<float> numbers =
        in_place ? MatrixView<float>(reinterpret_cast<float*>(bytes.data()), count, code.columns())
                 : scratch.Rows(0, count);
    for (size_t f = 0; f < inputs.size(); ++f) {
      inputs[f].first_sample = first;
      simurgh::Pool(inputs[f], rows, BlockOf(numbers, f),
                    ArgmaxOf(argmax, f, batch_size, first, count));
    }
    if (!in_place) code.Encode(numbers, /*factor=*/1, /*key=*/std::nullopt, bytes);
  });
}

bool BatchPooling::AddAll(const BufferedBatch& batch, const GradientBuffer& gradients,
                          std::span<const uint32_t> argmax, std::vector<bool>& dropped,
                          std::span<float> row_gradients) const {
  const VectorCodec& code = CodeOf(gradients.precision);
  const size_t batch_size = batch.batch().batch_size;
  // Grouped by table: only features of one table share rows.
  const std::vector<PoolingInput> pooled = InputsOf(batch);
  std::vector<UnpoolingInput> inputs;
  std::vector<size_t> input_features;
  std::vector<size_t> table_ends;
  for (const std::vector<size_t>& features : features_of_tables_) {
    for (const size_t f : features) {
      if (dropped[f]) continue;
      input_features.push_back(f);
      inputs.push_back({.pooling = pooled[f], .gradient = {}, .argmax = {}});
    }
    table_ends.push_back(inputs.size());
  }
  const bool in_place = gradients.precision == VectorPrecision::kF32 && gradients.scale == 1;
  const MatrixView<float> scratch = Scratch(code.columns());
  bool clean = true;
  ForSamples(batch_size, [&](size_t first_sample, size_t count) {
    const auto bytes =
        gradients.bytes.subspan(first_sample * code.row_bytes(), count * code.row_bytes());
    if (!in_place) code.Decode(bytes, 1 / gradients.scale, scratch.Rows(0, count));
    const MatrixView<const float> numbers =
        in_place ? MatrixView<const float>(reinterpret_cast<const float*>(bytes.data()), count,
                                           code.columns())
                 : MatrixView<const float>(scratch.Rows(0, count));
    for (size_t f = 0; f < dropped.size(); ++f) {
      if (dropped[f] || AllFinite(BlockOf(numbers, f))) continue;
      dropped[f] = true;
      clean = false;
    }
    // After a drop the caller repeats everything without the dropped features.
    if (!clean) return;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t f = input_features[i];
      inputs[i].pooling.first_sample = first_sample;
      inputs[i].gradient = BlockOf(numbers, f);
      inputs[i].argmax = ArgmaxOf(argmax, f, batch_size, first_sample, count);
    }
    size_t first = 0;
    for (const size_t end : table_ends) {
      simurgh::Unpool(std::span(inputs).subspan(first, end - first), row_gradients);
      first = end;
    }
  });
  return clean;
}

bool BatchPooling::DropOverflows(const BufferedBatch& batch, std::span<const float> row_gradients,
                                 std::vector<bool>& dropped) const {
  if (AllFinite(row_gradients)) return true;
  const std::vector<PoolingInput> inputs = InputsOf(batch);
  for (size_t f = 0; f < inputs.size(); ++f) {
    for (const uint32_t occurrence : inputs[f].feature.occurrences) {
      const size_t first = inputs[f].row_positions[occurrence];
      if (!AllFinite(row_gradients.subspan(first, inputs[f].dim))) dropped[f] = true;
    }
  }
  return false;
}

std::vector<size_t> BatchPooling::Unpool(const BufferedBatch& batch,
                                         const GradientBuffer& gradients,
                                         std::span<const uint32_t> argmax,
                                         std::span<float> row_gradients) const {
  SIMURGH_CHECK_EQ(gradients.bytes.size(),
                   batch.batch().batch_size * row_bytes(gradients.precision));
  std::vector<bool> dropped(layout_.features.size());
  do {
    std::ranges::fill(row_gradients, 0.0F);
  } while (!AddAll(batch, gradients, argmax, dropped, row_gradients) ||
           !DropOverflows(batch, row_gradients, dropped));
  std::vector<size_t> features;
  for (size_t f = 0; f < dropped.size(); ++f) {
    if (dropped[f]) features.push_back(f);
  }
  return features;
}

}  // namespace simurgh
