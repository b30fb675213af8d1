#include "data/vector_codec.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "data/row_codec.h"
#include "data/simd/vector_rows.h"

namespace simurgh {
namespace {

// Requires a format of 16 bits.
Half HalfOf(VectorPrecision precision) {
  return precision == VectorPrecision::kBf16 ? Half::kBf16 : Half::kF16;
}

void Scale(float factor, std::span<float> values) {
  for (float& value : values) value *= factor;
}

}  // namespace

VectorPrecision VectorPrecisionOf(RowPrecision precision) {
  switch (precision) {
    case RowPrecision::kF32:
      return VectorPrecision::kF32;
    case RowPrecision::kBf16:
      return VectorPrecision::kBf16;
    case RowPrecision::kF16:
      break;
  }
  return VectorPrecision::kF16;
}

VectorCodec::VectorCodec(VectorPrecision precision, std::vector<uint32_t> dims)
    : precision_(precision),
      dims_(std::move(dims)),
      columns_(std::accumulate(dims_.begin(), dims_.end(), size_t{0})) {
  SIMURGH_CHECK(std::ranges::find(dims_, 0U) == dims_.end());
  switch (precision_) {
    case VectorPrecision::kF32:
      row_bytes_ = columns_ * sizeof(float);
      break;
    case VectorPrecision::kBf16:
    case VectorPrecision::kF16:
      row_bytes_ = columns_ * sizeof(uint16_t);
      break;
    case VectorPrecision::kInt8:
      row_bytes_ = scales_offset() + dims_.size() * sizeof(float);
      break;
  }
}

void VectorCodec::Encode(MatrixView<const float> rows, float factor,
                         const std::optional<RoundingKey>& key,
                         std::span<std::byte> encoded) const {
  SIMURGH_CHECK_EQ(rows.columns(), columns_);
  SIMURGH_CHECK_EQ(encoded.size(), rows.rows() * row_bytes_);
  if (columns_ == 0) return;
  std::byte* to = encoded.data();
  for (size_t r = 0; r < rows.rows(); ++r, to += row_bytes_) {
    const std::span<const float> row = rows.row(r);
    if (precision_ == VectorPrecision::kF32) {
      std::memcpy(to, row.data(), row_bytes_);
      if (factor != 1) Scale(factor, {reinterpret_cast<float*>(to), columns_});
    } else if (precision_ == VectorPrecision::kInt8) {
      ByteRounding rounding;
      if (key) rounding = {true, RoundingNoise(key->seed, key->first_row + r, key->step)};
      std::memset(to + columns_, 0, scales_offset() - columns_);
      NarrowToBytes(dims_, factor, row.data(), rounding, reinterpret_cast<int8_t*>(to),
                    reinterpret_cast<float*>(to + scales_offset()));
    } else {
      NarrowRow(HalfOf(precision_), factor, row, reinterpret_cast<uint16_t*>(to));
    }
  }
}

void VectorCodec::Decode(std::span<const std::byte> encoded, float factor,
                         MatrixView<float> rows) const {
  SIMURGH_CHECK_EQ(rows.columns(), columns_);
  SIMURGH_CHECK_EQ(encoded.size(), rows.rows() * row_bytes_);
  if (columns_ == 0) return;
  const std::byte* from = encoded.data();
  for (size_t r = 0; r < rows.rows(); ++r, from += row_bytes_) {
    const std::span<float> row = rows.row(r);
    if (precision_ == VectorPrecision::kF32) {
      std::memcpy(row.data(), from, row_bytes_);
      if (factor != 1) Scale(factor, row);
    } else if (precision_ == VectorPrecision::kInt8) {
      WidenBytes(dims_, factor, reinterpret_cast<const int8_t*>(from),
                 reinterpret_cast<const float*>(from + scales_offset()), row.data());
    } else {
      WidenRow(HalfOf(precision_), factor, reinterpret_cast<const uint16_t*>(from), row);
    }
  }
}

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
  // Large scratch memory, reused by the calling thread and shared by the threads of the parts.
  thread_local std::vector<float> numbers_of_thread;
  thread_local std::vector<uint64_t> positions_of_thread;
  std::vector<uint64_t>& positions = positions_of_thread;
  positions.clear();
  size_t count = 0;
  ForEachId(batch, [&](size_t, const VectorCodec& row) {
    positions.push_back(count);
    count += row.columns();
  });
  numbers_of_thread.resize(std::max(numbers_of_thread.size(), count));
  const std::span<float> numbers = std::span(numbers_of_thread).first(count);
  for_each_part(batch.ids.size(), kLeastRows, [&](size_t first, size_t end) {
    Decode(batch, encoded, positions, first, end, numbers);
  });
  std::vector<PoolingInput> inputs;
  size_t column = 0;
  for (size_t f = 0; f < features_.size(); ++f) {
    const FeatureView view = batch.feature(f);
    inputs.push_back({.rule = features_[f].rule,
                      .feature = view,
                      .dim = features_[f].dim,
                      .row_positions = std::span(positions).subspan(view.first_id, view.ids.size()),
                      .first_column = column});
    column += features_[f].rule.width(features_[f].dim);
  }
  for_each_part(pooled.rows(), kLeastSamples, [&](size_t first, size_t end) {
    simurgh::Pool(inputs, numbers, first, pooled.Rows(first, end - first));
  });
}

}  // namespace simurgh
