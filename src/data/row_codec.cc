#include "simurgh/data/row_codec.h"

#include <algorithm>
#include <bit>

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// Their numbers, of all features, fit the first caches.
constexpr size_t kSamplesAtATime = 16;
constexpr size_t kSlotAlignment = 4;
// Worth a thread of their own: some ten microseconds.
constexpr size_t kLeastRows = 1'024;
constexpr size_t kLeastSamples = 64;

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

// All features of the samples from `first` on.
void PoolSamples(std::span<const PoolingInput> inputs, std::span<const float> numbers, size_t first,
                 MatrixView<float> pooled) {
  for (size_t row = 0; row < pooled.rows(); row += kSamplesAtATime) {
    const MatrixView<float> samples =
        pooled.Rows(row, std::min(kSamplesAtATime, pooled.rows() - row));
    size_t column = 0;
    for (PoolingInput input : inputs) {
      input.first_sample = first + row;
      const size_t width = input.rule.width(input.dim);
      Pool(input, numbers, samples.Columns(column, width), {});
      column += width;
    }
  }
}

}  // namespace

RowCodec::RowCodec(VectorPrecision precision, const std::vector<FeatureRows>& features)
    : precision_(precision), features_(features) {
  for (const FeatureRows& feature : features_) {
    codes_.emplace_back(precision, std::vector<uint32_t>{feature.dim});
  }
}

size_t RowCodec::slot_bytes() const {
  size_t longest = kSlotAlignment;
  for (const VectorCodec& code : codes_) longest = std::max(longest, code.row_bytes());
  return (longest + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

std::vector<size_t> RowCodec::FeaturesOfLists(const CompactBatch& batch) const {
  SIMURGH_CHECK_EQ(batch.feature_count(), features_.size());
  std::vector<size_t> features(batch.list_count());
  for (size_t f = 0; f < features_.size(); ++f) features[batch.list_of(f)] = f;
  return features;
}

size_t RowCodec::bytes(const CompactBatch& batch, std::span<const uint64_t> here) const {
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

std::vector<uint64_t> RowCodec::Destinations(const CompactBatch& batch,
                                             std::span<const uint64_t> here) const {
  std::vector<uint64_t> places(batch.ids.size());
  uint64_t next = 0;
  ForEachId(batch, [&](size_t id, const VectorCodec& row) {
    if (IsHere(here, id)) return;
    places[id] = next;
    next += row.row_bytes();
  });
  return places;
}

void RowCodec::Encode(const CompactBatch& batch, std::span<const float> rows,
                      std::span<const uint64_t> row_positions, std::span<const uint64_t> here,
                      std::span<std::byte> coded) const {
  SIMURGH_CHECK_EQ(coded.size(), bytes(batch, here));
  std::byte* to = coded.data();
  ForEachId(batch, [&](size_t id, const VectorCodec& row) {
    if (IsHere(here, id)) return;
    row.Encode({rows.data() + row_positions[id], 1, row.columns()}, /*factor=*/1,
               /*key=*/std::nullopt, {to, row.row_bytes()});
    to += row.row_bytes();
  });
}

void RowCodec::Decode(const CompactBatch& batch, std::span<const std::byte* const> rows,
                      std::span<const uint64_t> positions, size_t first, size_t end,
                      std::span<float> numbers) const {
  const std::vector<size_t> feature_of = FeaturesOfLists(batch);
  size_t list_first = 0;
  for (size_t list = 0; list < batch.list_count(); ++list) {
    const VectorCodec& row = code(feature_of[list]);
    const size_t list_end = batch.unique_ends[list];
    for (size_t id = std::max(first, list_first); id < std::min(end, list_end); ++id) {
      row.Decode({rows[id], row.row_bytes()}, /*factor=*/1,
                 {numbers.data() + positions[id], 1, row.columns()});
    }
    list_first = list_end;
  }
}

void RowCodec::Pool(const CompactBatch& batch, std::span<const std::byte* const> rows,
                    MatrixView<float> pooled, ForEachPart for_each_part) const {
  SIMURGH_CHECK_EQ(rows.size(), batch.ids.size());
  // Large memory that every batch needs for a moment: one for each thread that calls, and all that
  // have a part work in that.
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
  for_each_part(rows.size(), kLeastRows, [&](size_t first, size_t end) {
    Decode(batch, rows, positions, first, end, numbers);
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
  for_each_part(pooled.rows(), kLeastSamples, [&](size_t first, size_t end) {
    PoolSamples(inputs, numbers, first, pooled.Rows(first, end - first));
  });
}

void RowCodec::Pool(const CompactBatch& batch, std::span<const std::byte* const> rows,
                    MatrixView<float> pooled) const {
  Pool(batch, rows, pooled,
       [](size_t count, size_t, absl::FunctionRef<void(size_t, size_t)> work) { work(0, count); });
}

}  // namespace simurgh
