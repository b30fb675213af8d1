#include "embedding/batch_pooling.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/finite.h"

namespace simurgh {
namespace {

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
  numbers.resize(std::max(numbers.size(), kSamplesAtOnce * columns));
  return {numbers.data(), kSamplesAtOnce, columns};
}

// Calls visit(first sample, samples) for each block of samples.
template <typename Visit>
void ForSamples(size_t samples, const Visit& visit) {
  for (size_t first = 0; first < samples; first += kSamplesAtOnce) {
    visit(first, std::min(kSamplesAtOnce, samples - first));
  }
}

}  // namespace

BatchPooling::BatchPooling(const BatchLayout& layout) : layout_(layout), codecs_(CodesOf(layout)) {
  size_t columns = 0;
  for (size_t f = 0; f < layout_.features.size(); ++f) {
    argmax_columns_.push_back(columns);
    if (layout_.features[f].pooling.kind == Pooling::kMax) columns += layout_.dim(f);
  }
}

std::vector<PoolingInput> BatchPooling::InputsOf(const BufferedBatch& batch,
                                                 std::span<uint32_t> argmax) const {
  const size_t batch_size = batch.batch().batch_size;
  std::vector<PoolingInput> inputs;
  for (size_t f = 0; f < layout_.features.size(); ++f) {
    const BatchLayout::Feature& feature = layout_.features[f];
    const FeatureView view = batch.batch().feature(f);
    const bool has_argmax = !argmax.empty() && feature.pooling.kind == Pooling::kMax;
    inputs.push_back(
        {.rule = feature.pooling,
         .feature = view,
         .dim = layout_.dim(f),
         .row_positions =
             std::span(batch.plan.row_positions).subspan(view.first_id, view.ids.size()),
         .first_column = feature.first_column,
         .argmax = has_argmax ? argmax.subspan(batch_size * argmax_columns_[f],
                                               batch_size * layout_.dim(f))
                              : std::span<uint32_t>()});
  }
  return inputs;
}

void BatchPooling::Pool(const BufferedBatch& batch, std::span<const float> rows,
                        const EmbeddingBuffer& embeddings, std::span<uint32_t> argmax) const {
  const VectorCodec& code = CodeOf(embeddings.precision);
  const size_t batch_size = batch.batch().batch_size;
  SIMURGH_CHECK_EQ(embeddings.bytes.size(), batch_size * code.row_bytes());
  const std::vector<PoolingInput> inputs = InputsOf(batch, argmax);
  if (embeddings.precision == VectorPrecision::kF32) {
    return simurgh::Pool(inputs, rows, /*first=*/0,
                         {embeddings.floats().data(), batch_size, code.columns()});
  }
  const MatrixView<float> scratch = Scratch(code.columns());
  ForSamples(batch_size, [&](size_t first, size_t count) {
    const MatrixView<float> numbers = scratch.Rows(0, count);
    simurgh::Pool(inputs, rows, first, numbers);
    code.Encode(numbers, /*factor=*/1, /*key=*/std::nullopt,
                embeddings.bytes.subspan(first * code.row_bytes(), count * code.row_bytes()));
  });
}

template <typename Visit>
void BatchPooling::ForGradients(const BufferedBatch& batch, const GradientBuffer& gradients,
                                const Visit& visit) const {
  const VectorCodec& code = CodeOf(gradients.precision);
  const size_t batch_size = batch.batch().batch_size;
  if (gradients.precision == VectorPrecision::kF32 && gradients.scale == 1) {
    const MatrixView<const float> all(gradients.floats().data(), batch_size, code.columns());
    return visit(0, all);
  }
  const MatrixView<float> scratch = Scratch(code.columns());
  ForSamples(batch_size, [&](size_t first, size_t count) {
    const MatrixView<float> numbers = scratch.Rows(0, count);
    code.Decode(gradients.bytes.subspan(first * code.row_bytes(), count * code.row_bytes()),
                1 / gradients.scale, numbers);
    visit(first, MatrixView<const float>(numbers));
  });
}

bool BatchPooling::Add(const BufferedBatch& batch, const GradientBuffer& gradients,
                       std::span<const PoolingInput> inputs, std::span<float> row_gradients) const {
  std::ranges::fill(row_gradients, 0.0F);
  bool is_finite = true;
  ForGradients(batch, gradients, [&](size_t first, MatrixView<const float> numbers) {
    if (!simurgh::Unpool(inputs, first, numbers, row_gradients)) is_finite = false;
  });
  return is_finite && AllFinite(row_gradients);
}

std::vector<size_t> BatchPooling::PlaceRows(const BufferedBatch& batch,
                                            std::span<const float> gradients,
                                            std::span<float> row_gradients) const {
  const CompactBatch& ids = batch.batch();
  std::vector<size_t> dims(ids.list_count());
  for (size_t f = 0; f < layout_.features.size(); ++f) dims[ids.list_of(f)] = layout_.dim(f);
  std::vector<bool> finite(ids.list_count());
  std::ranges::fill(row_gradients, 0.0F);
  const float* from = gradients.data();
  size_t id = 0;
  for (size_t list = 0; list < dims.size(); ++list) {
    const size_t dim = dims[list];
    const size_t rows = ids.list(list).size();
    finite[list] = AllFinite(std::span(from, rows * dim));
    for (size_t end = id + rows; id < end; ++id, from += dim) {
      // Ids of several lists can have one row.
      float* const sum = row_gradients.data() + batch.plan.row_positions[id];
      for (size_t d = 0; d < dim && finite[list]; ++d) sum[d] += from[d];
    }
  }
  std::vector<size_t> dropped;
  for (size_t f = 0; f < layout_.features.size(); ++f) {
    if (!finite[ids.list_of(f)]) dropped.push_back(f);
  }
  return dropped;
}

std::vector<size_t> BatchPooling::Unpool(const BufferedBatch& batch,
                                         const GradientBuffer& gradients,
                                         std::span<uint32_t> argmax,
                                         std::span<float> row_gradients) const {
  if (gradients.form == EmbeddingForm::kRows) {
    return PlaceRows(batch, gradients.floats(), row_gradients);
  }
  SIMURGH_CHECK_EQ(gradients.bytes.size(),
                   batch.batch().batch_size * row_bytes(gradients.precision));
  const std::vector<PoolingInput> all = InputsOf(batch, argmax);
  // A sum with NaN or infinity is not finite: usually the sums are all that is checked.
  if (Add(batch, gradients, all, row_gradients)) return {};

  std::vector<bool> dropped(all.size());  // Indexed by feature.
  ForGradients(batch, gradients, [&](size_t, MatrixView<const float> numbers) {
    for (size_t f = 0; f < all.size(); ++f) {
      if (!AllFinite(numbers.Columns(all[f].first_column, layout_.width(f)))) dropped[f] = true;
    }
  });
  std::vector<PoolingInput> kept;
  const auto keep = [&] {
    kept.clear();
    for (size_t f = 0; f < all.size(); ++f) {
      if (!dropped[f]) kept.push_back(all[f]);
    }
  };
  for (keep(); !Add(batch, gradients, kept, row_gradients); keep()) {
    for (size_t f = 0; f < all.size(); ++f) {
      for (const uint32_t occurrence : all[f].feature.occurrences) {
        const size_t first = all[f].row_positions[occurrence];
        if (!AllFinite(row_gradients.subspan(first, all[f].dim))) dropped[f] = true;
      }
    }
  }
  std::vector<size_t> features;
  for (size_t f = 0; f < dropped.size(); ++f) {
    if (dropped[f]) features.push_back(f);
  }
  return features;
}

}  // namespace simurgh
