#include <algorithm>
#include <cstring>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "table/arena.h"
#include "tests/support/skip.h"
#include "tests/support/waiting.h"

namespace simurgh {
namespace {

size_t ResidentPages(std::byte* first, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(bytes / page);
  REQUIRE(mincore(first, bytes, resident.data()) == 0);
  return static_cast<size_t>(
      std::ranges::count_if(resident, [](unsigned char flags) { return (flags & 1) != 0; }));
}

// An emulator of another processor may accept the request and ignore it.
void SkipWithoutPopulate() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const bool populates = madvise(memory, page, MADV_POPULATE_WRITE) == 0 &&
                         ResidentPages(static_cast<std::byte*>(memory), page) == 1;
  munmap(memory, page);
  if (!populates) SIMURGH_SKIP("MADV_POPULATE_WRITE needs Linux 5.14, and no emulator");
}

TEST_CASE("accepted ranges become resident, and nothing else") {
  SkipWithoutPopulate();
  constexpr uint64_t kRange = uint64_t{64} << 10;
  constexpr uint64_t kRanges = 200;  // More than wait at once: some may be refused.
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  auto* const memory = static_cast<std::byte*>(mmap(
      nullptr, 2 * kRange * kRanges, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  madvise(memory, 2 * kRange * kRanges, MADV_NOHUGEPAGE);
  std::vector<bool> taken;
  {
    PrefaultThread thread;
    for (uint64_t i = 0; i < kRanges; ++i) {
      taken.push_back(thread.Prefault(memory + 2 * i * kRange, kRange));
    }
    testing::Eventually([&] { return !(thread.waiting_bytes() > 0); });
  }
  CHECK(taken[0]);
  for (uint64_t i = 0; i < kRanges; ++i) {
    const size_t resident = ResidentPages(memory + 2 * i * kRange, kRange);
    CHECK(resident == (taken[i] ? kRange / page : 0));
    CHECK(ResidentPages(memory + (2 * i + 1) * kRange, kRange) == 0);
  }
  munmap(memory, 2 * kRange * kRanges);
}

TEST_CASE("a region's next huge pages are prefaulted within bounds") {
  SkipWithoutPopulate();
  constexpr uint64_t kCapacity = uint64_t{64} << 20;
  Arena arena = Arena::Create(uint64_t{128} << 20).value();
  ArenaRegion region(arena, kCapacity);
  while (region.used_bytes() < ArenaRegion::kHugePageThreshold) region.Allocate(1 << 16);
  // Nothing is touched while small pages do.
  CHECK(ResidentPages(region.base(), kCapacity) == 0);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t steps = kCapacity / 2 / (1 << 16);
  for (uint64_t i = 0; i < steps; ++i) {
    region.Allocate(1 << 16);
    REQUIRE(ResidentPages(region.base(), kCapacity) * page <=
            region.used_bytes() + ArenaRegion::kMaxAhead + (uint64_t{2} << 20));
  }
  CHECK(testing::Eventually(
      [&] { return ResidentPages(region.base(), kCapacity) * page >= region.used_bytes() / 2; }));
}

// The prefault thread is busy whenever the region looks ahead.
TEST_CASE("pages that were not prefaulted still count as added memory") {
  SkipWithoutPopulate();
  constexpr uint64_t kBusy = uint64_t{32} << 20;
  constexpr uint64_t kCapacity = uint64_t{64} << 20;
  Arena arena = Arena::Create(uint64_t{128} << 20).value();
  const uint64_t busy = arena.Reserve(kBusy);
  ArenaRegion region(arena, kCapacity);
  while (region.used_bytes() < kCapacity / 2) {
    while (arena.Prefault(busy, kBusy)) continue;
    std::memset(region.base() + region.Allocate(2 * kHugePage), 1, 2 * kHugePage);
  }
  testing::Eventually([&] { return !(arena.waiting_bytes() > 0); });
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t resident = ResidentPages(region.base(), kCapacity) * page;
  CHECK(resident + region.AddedMemory(kCapacity) >= kCapacity);
}

TEST_CASE("a destroyed arena stops its prefault thread, also after a move") {
  for (int round = 0; round < 20; ++round) {
    Arena arena = Arena::Create(uint64_t{64} << 20).value();
    CHECK(arena.Prefault(0, uint64_t{32} << 20));
    Arena moved = std::move(arena);
    CHECK(moved.Prefault(uint64_t{32} << 20, uint64_t{32} << 20));
  }
}

}  // namespace
}  // namespace simurgh
