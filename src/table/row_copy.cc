#include "table/row_copy.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace simurgh {
namespace {

// Ids of a small table are noted even when most of them have gone.
constexpr uint64_t kMinRemoved = 1'024;

constexpr uint64_t kBlockBytes = uint64_t{64} << 10;
// Rows that are examined for one that is copied, so that a piece with few of them ends soon.
constexpr size_t kExaminedRows = 8;
// The same for rows of a log, which are bits.
constexpr size_t kExaminedBits = 512;

}  // namespace

void ChangeLog::Changes::BoundRemoved(uint64_t all_rows) {
  known = known && removed.size() <= std::max(all_rows / 2, kMinRemoved);
  if (!known) removed = {};
}

void ChangeLog::Changes::Clear(uint32_t row) {
  const size_t word = row / kWordBits;
  if (word < rows.size()) rows[word] &= ~Bit(row);
}

void ChangeLog::Remove(uint32_t row, uint64_t id, uint64_t all_rows) {
  copied_.Clear(row);
  recent_.Clear(row);
  RemoveId(id, all_rows);
}

ChangeLog::Noted ChangeLog::Take(uint32_t row) {
  const Noted noted = {.copied = copied_.Has(row), .recent = recent_.Has(row)};
  copied_.Clear(row);
  recent_.Clear(row);
  return noted;
}

void ChangeLog::Put(uint32_t row, const Noted& noted) {
  if (noted.copied) copied_.Set(row);
  if (noted.recent) recent_.Set(row);
}

void ChangeLog::RemoveId(uint64_t id, uint64_t all_rows) {
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

void RowCopy::Begin(uint32_t bound, uint32_t end, uint64_t count, CopyMemory& memory) {
  End();
  memory_ = &memory;
  bound_ = bound;
  at_ = 0;
  end_ = end;
  rows_left_ = count;
}

void RowCopy::Restrict(const ChangeLog& only, uint64_t count) {
  only_ = &only;
  rows_left_ = count;
}

void RowCopy::End() {
  rows_left_ = 0;
  only_ = nullptr;
  changed_.clear();
  const CopiedRows dropped = TakeEarly();
  if (memory_ != nullptr) memory_->Release(dropped.early_bytes);
  memory_ = nullptr;
}

void RowCopy::Save(uint32_t row, bool keeps_stamp) {
  if (rows_left_ == 0 || row < at_ || row >= end_ || !HasRow(row)) return;
  const uint64_t bytes = rows_.layout().stride_bytes;
  if (early_.blocks.empty() || early_.blocks.back().size() + bytes > kBlockBytes) {
    early_.blocks.emplace_back().reserve(std::max(bytes, kBlockBytes));
  }
  std::vector<std::byte>& block = early_.blocks.back();
  block.insert(block.end(), rows_.record(row), rows_.record(row) + bytes);
  memory_->Take(bytes);
  early_.early_bytes += bytes;
  if (keeps_stamp) changed_.insert(row);
  ++early_.rows;
  --rows_left_;
}

void RowCopy::LeaveOut(uint32_t row) {
  if (rows_left_ > 0 && row >= at_ && row < end_) changed_.insert(row);
}

CopiedRows RowCopy::TakeEarly() {
  CopiedRows taken = std::exchange(early_, {});
  taken.done = rows_left_ == 0;
  return taken;
}

CopiedRows RowCopy::Take(size_t count) {
  if (early_.rows > 0) return TakeEarly();
  CopiedRows taken;
  count = std::min<uint64_t>(count, rows_left_);
  const uint64_t bytes = rows_.layout().stride_bytes;
  std::vector<std::byte>& block = taken.blocks.emplace_back();
  block.reserve(count * bytes);
  const uint64_t examined = only_ == nullptr ? kExaminedRows : kExaminedBits;
  const uint32_t end =
      static_cast<uint32_t>(std::min<uint64_t>(end_, at_ + examined * std::max<size_t>(count, 1)));
  while (taken.rows < count && at_ < end) {
    if (only_ != nullptr) at_ = only_->Next(at_, end);
    const uint32_t first = at_;
    while (at_ < end && at_ - first < count - taken.rows && HasRow(at_)) ++at_;
    block.insert(block.end(), rows_.record(first), rows_.record(first) + (at_ - first) * bytes);
    taken.rows += at_ - first;
    if (at_ == first && at_ < end) ++at_;
  }
  rows_left_ -= taken.rows;
  taken.done = rows_left_ == 0 || at_ == end_;
  return taken;
}

void RowCopy::Rebase(uint64_t shift) {
  bound_ = static_cast<uint32_t>(std::max<uint64_t>(bound_ - std::min<uint64_t>(bound_, shift), 1));
  for (std::vector<std::byte>& block : early_.blocks) {
    for (size_t at = 0; at < block.size(); at += rows_.layout().stride_bytes) {
      auto& header = *reinterpret_cast<RowHeader*>(block.data() + at);
      header.recency -= static_cast<uint32_t>(std::min<uint64_t>(header.recency, shift));
    }
  }
}

}  // namespace simurgh
