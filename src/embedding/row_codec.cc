#include "embedding/row_codec.h"

#include <algorithm>

#include "base/check.h"

namespace simurgh {
namespace {

// Least work for a thread: about ten microseconds.
constexpr size_t kLeastRows = 1'024;
constexpr size_t kLeastSamples = 64;

}  // namespace

RowCodec::RowCodec(VectorPrecision precision, const std::vector<FeatureRows>& features)
    : precision_(precision), features_(features) {
  for (const FeatureRows& feature : features_) {
    codecs_.emplace_back(precision, std::vector<uint32_t>{feature.dim});
  }
}

std::vector<size_t> RowCodec::FeaturesOfLists(const CompactBatch& batch) const {
  SIMURGH_CHECK_EQ(batch.feature_count(), features_.size());
  std::vector<size_t> features(batch.list_count());
  for (size_t f = 0; f < features_.size(); ++f) features[batch.list_of(f)] = f;
  return features;
}

size_t RowCodec::bytes(const CompactBatch& batch) const {
  const std::vector<size_t> feature_of = FeaturesOfLists(batch);
  size_t bytes = 0;
  for (size_t list = 0; list < feature_of.size(); ++list) {
    bytes += batch.list(list).size() * codec(feature_of[list]).row_bytes();
  }
  return bytes;
}

size_t RowCodec::floats(const CompactBatch& batch) const {
  const std::vector<size_t> feature_of = FeaturesOfLists(batch);
  size_t floats = 0;
  for (size_t list = 0; list < feature_of.size(); ++list) {
    floats += batch.list(list).size() * features_[feature_of[list]].dim;
  }
  return floats;
}

void RowCodec::Encode(const CompactBatch& batch, std::span<const float> rows,
                      std::span<const uint64_t> row_positions, std::span<std::byte> encoded) const {
  SIMURGH_CHECK_EQ(encoded.size(), bytes(batch));
  std::byte* to = encoded.data();
  ForEachId(batch, [&](size_t id, const VectorCodec& row) {
    row.Encode({rows.data() + row_positions[id], 1, row.columns()}, /*factor=*/1,
               /*key=*/std::nullopt, {to, row.row_bytes()});
    to += row.row_bytes();
  });
}

RowCodec::Inputs RowCodec::InputsOf(const CompactBatch& batch) const {
  Inputs all;
  all.positions.reserve(batch.ids.size());
  ForEachId(batch, [&](size_t, const VectorCodec& row) {
    all.positions.push_back(all.floats);
    all.floats += row.columns();
  });
  std::vector<size_t> columns;
  size_t column = 0;
  for (const FeatureRows& feature : features_) {
    columns.push_back(column);
    column += feature.rule.width(feature.dim);
  }
  std::vector<std::vector<size_t>> of_lists(batch.list_count());
  for (size_t f = 0; f < features_.size(); ++f) of_lists[batch.list_of(f)].push_back(f);
  for (const std::vector<size_t>& features : of_lists) {
    for (const size_t f : features) {
      const FeatureView view = batch.feature(f);
      all.inputs.push_back(
          {.rule = features_[f].rule,
           .feature = view,
           .dim = features_[f].dim,
           .row_positions = std::span(all.positions).subspan(view.first_id, view.ids.size()),
           .first_column = columns[f]});
    }
    all.list_ends.push_back(all.inputs.size());
  }
  return all;
}

void RowCodec::Decode(const CompactBatch& batch, std::span<const std::byte> encoded,
                      std::span<const uint64_t> positions, size_t first, size_t end,
                      std::span<float> numbers) const {
  const std::vector<size_t> feature_of = FeaturesOfLists(batch);
  size_t list_first = 0;
  size_t list_byte = 0;
  for (size_t list = 0; list < batch.list_count(); ++list) {
    const VectorCodec& row = codec(feature_of[list]);
    const size_t list_end = batch.unique_ends[list];
    for (size_t id = std::max(first, list_first); id < std::min(end, list_end); ++id) {
      row.Decode(encoded.subspan(list_byte + (id - list_first) * row.row_bytes(), row.row_bytes()),
                 /*factor=*/1, {numbers.data() + positions[id], 1, row.columns()});
    }
    list_byte += (list_end - list_first) * row.row_bytes();
    list_first = list_end;
  }
}

void RowCodec::Pool(const CompactBatch& batch, std::span<const std::byte> encoded,
                    MatrixView<float> pooled, ForEachPart for_each_part) const {
  SIMURGH_CHECK_EQ(encoded.size(), bytes(batch));
  const Inputs all = InputsOf(batch);
  std::span<const float> numbers;
  if (precision_ == VectorPrecision::kF32) {
    numbers = {reinterpret_cast<const float*>(encoded.data()), all.floats};
  } else {
    // Large scratch memory, reused by the calling thread and shared by the threads of the parts.
    thread_local std::vector<float> numbers_of_thread;
    numbers_of_thread.resize(std::max(numbers_of_thread.size(), all.floats));
    const std::span<float> decoded = std::span(numbers_of_thread).first(all.floats);
    for_each_part(batch.ids.size(), kLeastRows, [&](size_t first, size_t end) {
      Decode(batch, encoded, all.positions, first, end, decoded);
    });
    numbers = decoded;
  }
  for_each_part(pooled.rows(), kLeastSamples, [&](size_t first, size_t end) {
    simurgh::Pool(all.inputs, numbers, first, pooled.Rows(first, end - first));
  });
}

void RowCodec::Unpool(const CompactBatch& batch, MatrixView<const float> gradients,
                      std::span<float> row_gradients, ForEachPart for_each_part) const {
  const Inputs all = InputsOf(batch);
  SIMURGH_CHECK_EQ(row_gradients.size(), all.floats);
  std::ranges::fill(row_gradients, 0.0F);
  // Threads add to different lists.
  const size_t lists = batch.list_count();
  const size_t least = kLeastSamples * lists / std::max<size_t>(batch.batch_size, 1) + 1;
  for_each_part(lists, least, [&](size_t first, size_t end) {
    AddGradients(all, first, end, /*first=*/0, gradients, row_gradients);
  });
}

void RowCodec::AddGradients(const Inputs& all, size_t first_list, size_t end_list, size_t first,
                            MatrixView<const float> gradients, std::span<float> row_gradients) {
  for (size_t row = 0; row < gradients.rows(); row += kSamplesAtOnce) {
    const auto part = gradients.Rows(row, std::min(kSamplesAtOnce, gradients.rows() - row));
    for (size_t list = first_list; list < end_list; ++list) {
      const size_t begin = list == 0 ? 0 : all.list_ends[list - 1];
      simurgh::Unpool(std::span(all.inputs).subspan(begin, all.list_ends[list] - begin),
                      first + row, part, row_gradients);
    }
  }
}

bool SendsRowGradients(const EmbeddingWire& wire, const RowCodec& rows, const CompactBatch& batch,
                       size_t pooled_bytes) {
  if (!wire.row_gradients) return false;
  // A row that is in two lists would get its sums in another order.
  std::vector<size_t> list_of_table;
  for (size_t f = 0; f < wire.rows.size(); ++f) {
    const size_t table = wire.rows[f].table;
    if (table >= list_of_table.size()) list_of_table.resize(table + 1, batch.list_count());
    if (list_of_table[table] < batch.list_count() && list_of_table[table] != batch.list_of(f)) {
      return false;
    }
    list_of_table[table] = batch.list_of(f);
  }
  return rows.floats(batch) * sizeof(float) < pooled_bytes;
}

}  // namespace simurgh
