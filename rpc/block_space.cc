#include "rpc/block_space.h"

#include <algorithm>
#include <iterator>

#include "rpc/borrowed_segment.h"
#include "simurgh/base/check.h"

namespace simurgh::rpc {

BlockSpace::BlockSpace(uint64_t size) : free_{{0, size}} {
  SIMURGH_CHECK(size != 0 && size % kPageBytes == 0)
      << "region size " << size << " is not a multiple of the page size";
}

std::optional<BlockSpace::Range> BlockSpace::Allocate(uint64_t bytes) {
  if (bytes > UINT64_MAX - kPageBytes) return std::nullopt;
  const uint64_t length = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto fits = [length](const auto& range) { return range.second >= length; };
  const auto found = std::find_if(free_.begin(), free_.end(), fits);
  if (found == free_.end()) return std::nullopt;
  const auto [offset, room] = *found;
  free_.erase(found);
  if (room != length) free_.emplace(offset + length, room - length);
  used_bytes_ += length;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  touched_end_ = std::max(touched_end_, offset + length);
  return Range{offset, length};
}

void BlockSpace::Free(Range block) {
  used_bytes_ -= block.length;
  auto next = free_.upper_bound(block.offset);
  if (next != free_.end() && next->first == block.offset + block.length) {
    block.length += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == block.offset) {
      before->second += block.length;
      return;
    }
  }
  free_.emplace_hint(next, block.offset, block.length);
}

std::vector<BlockSpace::Range> BlockSpace::TakeIdle(uint64_t keep) {
  keep += peak_bytes_ - used_bytes_;
  peak_bytes_ = used_bytes_;
  std::vector<Range> idle;
  for (const auto& [offset, length] : free_) {
    const uint64_t kept = std::min(length, keep);
    keep -= kept;
    const uint64_t end = std::min(offset + length, touched_end_);
    if (offset + kept < end) idle.push_back({offset + kept, end - offset - kept});
  }
  if (!idle.empty() && idle.back().offset + idle.back().length == touched_end_) {
    touched_end_ = idle.back().offset;
  }
  return idle;
}

}  // namespace simurgh::rpc
