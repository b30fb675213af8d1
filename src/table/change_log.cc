#include "table/change_log.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace simurgh {
namespace {

// Ids of a small table are noted even when most of them have gone.
constexpr uint64_t kMinRemoved = 1'024;

}  // namespace

void ChangeLog::Changes::BoundRemoved(uint64_t all_rows) {
  known = known && removed.size() <= std::max(all_rows / 2, kMinRemoved);
  if (!known) removed = {};
}

void ChangeLog::Remove(uint32_t row, uint64_t id, uint64_t all_rows) {
  const size_t word = row / kWordBits;
  for (Changes* changes : {&copied_, &recent_}) {
    if (word < changes->rows.size()) changes->rows[word] &= ~Bit(row);
  }
  if (!recent_.known) return;
  recent_.removed.push_back(id);
  recent_.BoundRemoved(all_rows);
}

void ChangeLog::Begin(CopyBase base, uint64_t all_rows) {
  active_ = base != CopyBase::kUnnoted;
  Changes recent = std::exchange(recent_, {});
  recent_.known = active_;
  switch (base) {
    case CopyBase::kUnnoted:
    case CopyBase::kNone:
      copied_ = {};
      return;
    case CopyBase::kLast:
      copied_ = std::move(recent);
      return;
    case CopyBase::kBeforeLast:
      copied_.rows.resize(std::max(copied_.rows.size(), recent.rows.size()));
      for (size_t i = 0; i < recent.rows.size(); ++i) copied_.rows[i] |= recent.rows[i];
      copied_.removed.insert(copied_.removed.end(), recent.removed.begin(), recent.removed.end());
      copied_.known = copied_.known && recent.known;
      copied_.BoundRemoved(all_rows);
      return;
  }
}

uint32_t ChangeLog::Next(uint32_t row, uint32_t end) const {
  size_t word = row / kWordBits;
  if (row >= end || word >= copied_.rows.size()) return end;
  uint64_t bits = copied_.rows[word] & (~uint64_t{0} << (row % kWordBits));
  const size_t words = std::min<size_t>(copied_.rows.size(), (end - 1) / kWordBits + 1);
  while (bits == 0) {
    if (++word == words) return end;
    bits = copied_.rows[word];
  }
  return static_cast<uint32_t>(
      std::min<uint64_t>(end, word * kWordBits + static_cast<size_t>(std::countr_zero(bits))));
}

uint64_t ChangeLog::Count() const {
  uint64_t count = 0;
  for (const uint64_t word : copied_.rows) count += static_cast<uint64_t>(std::popcount(word));
  return count;
}

}  // namespace simurgh
