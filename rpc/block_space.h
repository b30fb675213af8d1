#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace simurgh::rpc {

// First-fit allocator of page ranges. It prefers low offsets, so that recently used pages, which
// are still in the cache, are used again.
//
// Invariants: free ranges are disjoint, not empty and not adjacent.
//
// Threads: one at a time.
class BlockSpace {
 public:
  struct Range {
    uint64_t offset = 0;
    uint64_t length = 0;
    bool operator==(const Range&) const = default;
  };

  // size: a multiple of kPageBytes.
  explicit BlockSpace(uint64_t size);

  // A block of at least `bytes` bytes, or nullopt if no free range is large enough.
  // Requires bytes > 0.
  std::optional<Range> Allocate(uint64_t bytes);
  // Requires a block that Allocate returned.
  void Free(Range block);

  uint64_t used_bytes() const { return used_bytes_; }
  // Maximum of used_bytes() since the last TakeIdle.
  uint64_t peak_bytes() const { return peak_bytes_; }

  // Returns free ranges whose pages the caller releases; they count as untouched from then on.
  // Keeps `keep` free bytes (whole pages) plus peak use minus current use.
  std::vector<Range> TakeIdle(uint64_t keep);

 private:
  std::map<uint64_t, uint64_t> free_;  // Offset -> length.
  uint64_t used_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t touched_end_ = 0;  // Pages from this offset on do not exist yet.
};

}  // namespace simurgh::rpc
