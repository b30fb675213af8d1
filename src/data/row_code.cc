#include "simurgh/data/row_code.h"

#include <algorithm>
#include <bit>

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// Their numbers, of all features, fit the first caches.
constexpr size_t kSamplesAtATime = 16;
constexpr size_t kSlotAlignment = 4;

bool IsHere(std::span<const uint64_t> here, size_t id) {
  return !here.empty() && (here[id / 64] >> (id % 64) & 1U) != 0;
}

// How many of the ids in [first, end) are said to be here.
size_t CountHere(std::span<const uint64_t> here, size_t first, size_t end) {
  if (here.empty() || first == end) return 0;
  const size_t last = end - 1;
  size_t count = 0;
  for (size_t word = first / 64; word <= last / 64; ++word) {
    uint64_t bits = here[word];
    if (word == first / 64) bits &= ~uint64_t{0} << (first % 64);
    if (word == last / 64) bits &= ~uint64_t{0} >> (63 - last % 64);
    count += static_cast<size_t>(std::popcount(bits));
  }
  return count;
}

}  // namespace

RowCode::RowCode(VectorPrecision precision, const std::vector<FeatureRows>& features)
    : precision_(precision), features_(features) {
  for (const FeatureRows& feature : features_) {
    codes_.emplace_back(precision, std::vector<uint32_t>{feature.dim});
  }
}

size_t RowCode::slot_bytes() const {
  size_t longest = kSlotAlignment;
  for (const VectorCode& code : codes_) longest = std::max(longest, code.row_bytes());
  return (longest + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

std::vector<size_t> RowCode::FeaturesOfLists(const CompactBatch& batch) const {
  SIMURGH_CHECK_EQ(batch.feature_count(), features_.size());
  std::vector<size_t> features(batch.list_count());
  for (size_t f = 0; f < features_.size(); ++f) features[batch.list_of(f)] = f;
  return features;
}

size_t RowCode::bytes(const CompactBatch& batch, std::span<const uint64_t> here) const {
  const std::vector<size_t> feature_of = FeaturesOfLists(batch);
  size_t bytes = 0;
  size_t first = 0;
  for (size_t list = 0; list < batch.list_count(); ++list) {
    const size_t end = batch.unique_ends[list];
    bytes += (end - first - CountHere(here, first, end)) * code(feature_of[list]).row_bytes();
    first = end;
  }
  return bytes;
}

std::vector<uint64_t> RowCode::Places(const CompactBatch& batch,
                                      std::span<const uint64_t> here) const {
  std::vector<uint64_t> places(batch.ids.size());
  uint64_t next = 0;
  ForEachId(batch, [&](size_t id, const VectorCode& row) {
    if (IsHere(here, id)) return;
    places[id] = next;
    next += row.row_bytes();
  });
  return places;
}

void RowCode::Encode(const CompactBatch& batch, std::span<const float> rows,
                     std::span<const uint64_t> row_positions, std::span<const uint64_t> here,
                     std::span<std::byte> coded) const {
  SIMURGH_CHECK_EQ(coded.size(), bytes(batch, here));
  std::byte* to = coded.data();
  ForEachId(batch, [&](size_t id, const VectorCode& row) {
    if (IsHere(here, id)) return;
    row.Encode({rows.data() + row_positions[id], 1, row.columns()}, /*factor=*/1,
               /*key=*/std::nullopt, {to, row.row_bytes()});
    to += row.row_bytes();
  });
}

void RowCode::Pool(const CompactBatch& batch, std::span<const std::byte* const> rows,
                   MatrixView<float> pooled) const {
  SIMURGH_CHECK_EQ(rows.size(), batch.ids.size());
  // Large memory that every batch needs for a moment: one for each thread.
  thread_local std::vector<float> numbers;
  thread_local std::vector<uint64_t> positions;
  positions.clear();
  size_t count = 0;
  ForEachId(batch, [&](size_t id, const VectorCode& row) {
    positions.push_back(count);
    numbers.resize(std::max(numbers.size(), count + row.columns()));
    row.Decode({rows[id], row.row_bytes()}, /*factor=*/1,
               {numbers.data() + count, 1, row.columns()});
    count += row.columns();
  });
  std::vector<PoolingInput> inputs;
  for (size_t f = 0; f < features_.size(); ++f) {
    const FeatureView view = batch.feature(f);
    inputs.push_back(
        {.rule = features_[f].rule,
         .feature = view,
         .dim = features_[f].dim,
         .row_positions = std::span(positions).subspan(view.first_id, view.ids.size())});
  }
  for (size_t first = 0; first < pooled.rows(); first += kSamplesAtATime) {
    const MatrixView<float> samples =
        pooled.Rows(first, std::min(kSamplesAtATime, pooled.rows() - first));
    size_t column = 0;
    for (PoolingInput& input : inputs) {
      input.first_sample = first;
      const size_t width = input.rule.width(input.dim);
      simurgh::Pool(input, {numbers.data(), count}, samples.Columns(column, width), {});
      column += width;
    }
  }
}

}  // namespace simurgh
