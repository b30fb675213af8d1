#include "table/arena.h"

#include <algorithm>
#include <cstdlib>

#include <unistd.h>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

TEST_CASE("reservations are aligned, disjoint and zero") {
  Arena arena = Arena::Create(uint64_t{64} << 20).value();
  const uint64_t first = arena.Reserve(3);
  const uint64_t second = arena.Reserve(100);
  const uint64_t large = arena.Reserve(uint64_t{5} << 20);
  const uint64_t last = arena.Reserve(1);
  CHECK(second == first + 64);
  CHECK(reinterpret_cast<uintptr_t>(arena.at(first)) % 64 == 0);
  CHECK(reinterpret_cast<uintptr_t>(arena.at(large)) % (2 << 20) == 0);
  CHECK(large >= second + 128);
  CHECK(last >= large + (5 << 20));
  std::byte* bytes = arena.at(large);
  CHECK(std::all_of(bytes, bytes + (5 << 20), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_CASE("a region is filled from its start, through its huge pages") {
  Arena arena = Arena::Create(uint64_t{64} << 20).value();
  ArenaRegion region(arena, uint64_t{32} << 20);
  for (uint64_t i = 0; i < uint64_t{32} * 1024; ++i) {
    REQUIRE(region.Allocate(1024) == i * 1024);
    region.base()[i * 1024] = std::byte{1};
  }
  CHECK(region.used_bytes() == region.capacity_bytes());
}

TEST_CASE("a failed reservation of address space names a remedy") {
  const auto arena = Arena::Create(uint64_t{1} << 50);
  CHECK(arena.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(arena.status().message().find("capacity_rows") != absl::string_view::npos);
}

TEST_CASE("a moved arena keeps its memory in place") {
  Arena arena = Arena::Create(1 << 20).value();
  std::byte* at = arena.at(arena.Reserve(64));
  *at = std::byte{7};
  Arena moved = std::move(arena);
  CHECK(*at == std::byte{7});
  CHECK(moved.at(moved.Reserve(64)) == at + 64);
}

TEST_CASE("an arena in a directory leaves no file there") {
  char directory[] = "/dev/shm/simurgh-arena-test-XXXXXX";
  REQUIRE(mkdtemp(directory) != nullptr);
  Arena arena = Arena::CreateInDirectory(directory, uint64_t{8} << 20).value();
  Arena other = Arena::CreateInDirectory(directory, uint64_t{8} << 20).value();
  // Removes only an empty directory.
  CHECK(rmdir(directory) == 0);
  std::byte* const at = arena.at(arena.Reserve(100));
  REQUIRE(arena.Commit(0, 100).ok());
  *at = std::byte{7};
  CHECK(*other.at(other.Reserve(100)) == std::byte{0});
  CHECK(Arena(std::move(arena)).in_file());
}

TEST_CASE("errors name the arena's directory and the NUMA node") {
  const auto arena = Arena::CreateInDirectory("/nowhere/at/all", 1 << 20);
  CHECK(arena.status().code() == absl::StatusCode::kNotFound);
  CHECK(arena.status().message().find("/nowhere/at/all") != absl::string_view::npos);
  const Status bound = Arena::Create(1 << 20)->BindToNode(1023);
  CHECK(bound.code() == absl::StatusCode::kInvalidArgument);
  CHECK(bound.message().find("1023") != absl::string_view::npos);
}

}  // namespace
}  // namespace simurgh
