#include "bench/micro/table/bare_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "table/row_lookup.h"
#include "table/simd/encoded_rows.h"

namespace simurgh::bench {
namespace {

constexpr uint64_t kLine = 64;
constexpr size_t kIndexAhead = 128;
constexpr size_t kTogether = 32;

// As full as the table's index when the table is full.
uint64_t LinesFor(uint64_t rows) { return rows * 100 / (uint64_t{IndexBucket::kSlots} * 65) + 1; }

}  // namespace

BareTable::BareTable(uint64_t rows, const RowKind& kind)
    : kind_(kind),
      index_lines_(LinesFor(rows)),
      records_(rows * RowLayout(kind.format).stride_bytes),
      rows_(records_.base(), RowLayout(kind.format)),
      index_(index_lines_ * kLine),
      found_(BatchLookup::kBlock) {
  const std::vector<float> values(kind.format.floats(), 0.1F);
  for (uint64_t row = 0; row < rows; ++row) {
    EncodeNewRow(kind.format, values.data(), rows_.values(static_cast<uint32_t>(row)));
  }
}

const uint32_t* BareTable::Find(const Batch& batch, size_t begin, size_t count) {
  // The ids are hashes.
  const auto line = [&](size_t i) {
    const auto at = static_cast<unsigned __int128>(batch.ids[begin + i]) * index_lines_ >> 64;
    return index_.base() + static_cast<uint64_t>(at) * kLine;
  };
  const size_t ahead = std::min(kIndexAhead, count);
  for (size_t i = 0; i < ahead; ++i) __builtin_prefetch(line(i));
  for (size_t i = 0; i < count; ++i) {
    if (i + ahead < count) __builtin_prefetch(line(i + ahead));
    uint32_t zero;  // All of the index is; a row number waits for its line.
    std::memcpy(&zero, line(i), sizeof(zero));
    found_[i] = batch.rows[begin + i] + zero;
  }
  return found_.data();
}

void BareTable::Pull(const Batch& batch, float* out) {
  const Rows rows = rows_;  // Nothing that is written here can change it.
  const size_t dim = kind_.dim();
  const uint64_t bytes = kind_.format.weight_bytes();
  for (size_t begin = 0; begin < batch.rows.size(); begin += BatchLookup::kBlock) {
    const size_t count = std::min(BatchLookup::kBlock, batch.rows.size() - begin);
    const uint32_t* found = Find(batch, begin, count);
    const auto at = [&](size_t i) { return rows.record(found[i]); };
    ForFetched(pull_fetching_, count, sizeof(RowHeader) + bytes, at, [&](size_t i) {
      rows.header(found[i]).recency = 1;
      std::memcpy(out + (begin + i) * dim, rows.values(found[i]), bytes);
    });
  }
}

void BareTable::Push(const Batch& batch, const float* gradients) {
  const Rows rows = rows_;
  const size_t dim = kind_.dim();
  std::array<RowGradient, kTogether> updates;
  for (size_t begin = 0; begin < batch.rows.size(); begin += BatchLookup::kBlock) {
    const size_t count = std::min(BatchLookup::kBlock, batch.rows.size() - begin);
    const uint32_t* found = Find(batch, begin, count);
    size_t filled = 0;
    const auto at = [&](size_t i) { return rows.record(found[i]); };
    ForFetched(push_fetching_, count, rows.layout().stride_bytes, at, [&](size_t i) {
      updates[filled++] = {reinterpret_cast<float*>(rows.values(found[i])),
                           gradients + (begin + i) * dim};
      if (filled < kTogether && i + 1 < count) return;
      UpdateRows(kind_.update, std::span(updates).first(filled));
      filled = 0;
    });
  }
}

}  // namespace simurgh::bench
