#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "rpc/region.h"

namespace simurgh::rpc {
namespace {

using Range = BlockSpace::Range;

constexpr uint64_t kPages = 64;

// The reference: the owner of each page, and whether it exists.
struct Model {
  std::vector<bool> used = std::vector<bool>(kPages);
  std::vector<bool> touched = std::vector<bool>(kPages);

  // The first fit.
  std::optional<uint64_t> FirstFit(uint64_t pages) const {
    uint64_t run = 0;
    for (uint64_t page = 0; page < kPages; ++page) {
      run = used[page] ? 0 : run + 1;
      if (run == pages) return page + 1 - pages;
    }
    return std::nullopt;
  }
  void Set(const Range& range, bool in_use) {
    for (uint64_t page = range.offset / kPageBytes;
         page < (range.offset + range.length) / kPageBytes; ++page) {
      CHECK(used[page] != in_use);
      used[page] = in_use;
      if (in_use) touched[page] = true;
    }
  }
  uint64_t UsedBytes() const {
    return kPageBytes * static_cast<uint64_t>(std::count(used.begin(), used.end(), true));
  }
  uint64_t IdleBytes() const {
    uint64_t pages = 0;
    for (uint64_t page = 0; page < kPages; ++page) pages += touched[page] && !used[page] ? 1 : 0;
    return pages * kPageBytes;
  }
};

TEST_CASE("blocks and idle pages match a page-by-page model") {
  const uint64_t seed = GENERATE(range(uint64_t{1}, uint64_t{9}));
  INFO("seed " << seed);
  Random random(seed);
  BlockSpace space(kPages * kPageBytes);
  Model model;
  std::vector<Range> blocks;
  uint64_t peak = 0;
  for (int step = 0; step < 3'000; ++step) {
    const uint64_t action = random.Below(100);
    if (action < 52) {
      const uint64_t bytes = 1 + random.Below(kPageBytes * (random.Below(5) == 0 ? 30 : 5));
      const uint64_t pages = (bytes + kPageBytes - 1) / kPageBytes;
      const std::optional<uint64_t> expected = model.FirstFit(pages);
      const std::optional<Range> block = space.Allocate(bytes);
      REQUIRE(block.has_value() == expected.has_value());
      if (!block) continue;
      REQUIRE(*block == Range{*expected * kPageBytes, pages * kPageBytes});
      model.Set(*block, true);
      blocks.push_back(*block);
      peak = std::max(peak, model.UsedBytes());
    } else if (action < 98 && !blocks.empty()) {
      const size_t victim = random.Below(blocks.size());
      space.Free(blocks[victim]);
      model.Set(blocks[victim], false);
      blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(victim));
    } else {
      const uint64_t keep = random.Below(6) * kPageBytes;
      const uint64_t allowed = keep + peak - model.UsedBytes();
      peak = model.UsedBytes();
      for (const Range& idle : space.TakeIdle(keep)) {
        for (uint64_t at = idle.offset; at < idle.offset + idle.length; at += kPageBytes) {
          REQUIRE_FALSE(model.used[at / kPageBytes]);
          model.touched[at / kPageBytes] = false;
        }
      }
      REQUIRE(model.IdleBytes() <= allowed);
    }
    REQUIRE(space.used_bytes() == model.UsedBytes());
  }
  for (const Range& block : blocks) space.Free(block);
  CHECK(space.Allocate(kPages * kPageBytes) == Range{0, kPages * kPageBytes});
}

TEST_CASE("recently used pages are kept for one more round") {
  BlockSpace space(kPages * kPageBytes);
  const Range low = *space.Allocate(kPageBytes), high = *space.Allocate(10 * kPageBytes);
  space.Free(high);
  CHECK(space.TakeIdle(0).empty());  // Eleven pages were in use since the last call.
  CHECK(space.TakeIdle(4 * kPageBytes) == std::vector<Range>{{5 * kPageBytes, 6 * kPageBytes}});
  CHECK(space.TakeIdle(4 * kPageBytes).empty());
  space.Free(low);
  CHECK(space.TakeIdle(0) == std::vector<Range>{{kPageBytes, 4 * kPageBytes}});
  CHECK(space.TakeIdle(0) == std::vector<Range>{{0, kPageBytes}});
}

TEST_CASE("a request larger than the region fails") {
  BlockSpace space(kPages * kPageBytes);
  CHECK_FALSE(space.Allocate(kPages * kPageBytes + 1).has_value());
  CHECK_FALSE(space.Allocate(UINT64_MAX).has_value());
  CHECK(space.used_bytes() == 0);
}

}  // namespace
}  // namespace simurgh::rpc
