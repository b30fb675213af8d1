#include "table/row_copy.h"

#include <algorithm>
#include <utility>

namespace simurgh {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{64} << 10;
// Rows that are examined for one that is copied, so that a piece with few of them ends soon.
constexpr size_t kExaminedRows = 8;
// The same for rows of a log, which are bits.
constexpr size_t kExaminedBits = 512;

}  // namespace

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
