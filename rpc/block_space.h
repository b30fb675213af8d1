#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace simurgh::rpc {

// Which bytes of a region are free: first fit over offsets, in pages. Low offsets are used again
// first, so that what was touched lately and lies in the cache is written next.
//
// Invariants: free ranges are disjoint, not empty, and never touch (they would be one).
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

  // A block of at least `bytes` > 0; nothing when no free range has room.
  std::optional<Range> Allocate(uint64_t bytes);
  // block: as Allocate returned it.
  void Free(Range block);

  uint64_t used_bytes() const { return used_bytes_; }
  // The most that were in use at once since the last TakeIdle.
  uint64_t peak_bytes() const { return peak_bytes_; }

  // At most so many pages that are free have been touched and not been given back.
  uint64_t idle_bytes() const { return touched_end_ - used_bytes_; }

  // Free ranges whose pages may be given back, after which they count as untouched. Keeps `keep`
  // bytes (whole pages) of free ones, and as many more as were in use at once since the last call.
  std::vector<Range> TakeIdle(uint64_t keep);

 private:
  std::map<uint64_t, uint64_t> free_;  // Offset -> length.
  uint64_t used_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t touched_end_ = 0;  // Nothing from here on has been used since it was given back.
};

}  // namespace simurgh::rpc
