#include "base/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

bool IsAligned(const AlignedBuffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment == 0;
}

TEST_CASE("buffers are aligned, and every byte is theirs") {
  for (size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4097}}) {
    AlignedBuffer buffer(size);
    CHECK(IsAligned(buffer));
    REQUIRE(buffer.bytes().size() == size);
    std::memset(buffer.data(), 0xab, size);
  }
  CHECK(AlignedBuffer().size() == 0);
  CHECK(AlignedBuffer(0).data() == nullptr);
}

TEST_CASE("a moved buffer keeps its place") {
  AlignedBuffer source(16);
  std::byte* const place = source.data();
  AlignedBuffer target(std::move(source));
  CHECK(target.data() == place);
  CHECK(target.size() == 16);
  AlignedBuffer assigned(8);
  assigned = std::move(target);
  CHECK(assigned.data() == place);
  CHECK(assigned.as<uint32_t>(4).size() == 4);
}

TEST_CASE("a pool gives at least the requested size and reuses it") {
  BufferPool pool(1 << 20);
  std::byte* place = nullptr;
  {
    const auto lease = pool.Lease(5000);
    CHECK(lease->size() >= 5000);
    CHECK(IsAligned(*lease));
    CHECK(pool.idle_bytes() == 0);
    place = lease->data();
  }
  CHECK(pool.idle_bytes() == 8192);
  const auto again = pool.Lease(8000);
  CHECK(again->data() == place);
  CHECK(pool.idle_bytes() == 0);
  CHECK(pool.Lease(100'000)->data() != place);
}

TEST_CASE("a pool keeps no more than its capacity") {
  BufferPool pool(8192);
  {
    const auto a = pool.Lease(4096);
    const auto b = pool.Lease(4096);
    const auto c = pool.Lease(4096);
    const auto large = pool.Lease(1 << 20);
  }
  CHECK(pool.idle_bytes() <= 8192);
  CHECK(pool.idle_bytes() >= 4096);
}

TEST_CASE("a full pool keeps the sizes that were leased last") {
  BufferPool pool(16'384);
  {
    const auto a = pool.Lease(4096);
    const auto b = pool.Lease(4096);
    const auto c = pool.Lease(8192);
  }
  CHECK(pool.idle_bytes() == 16'384);
  const std::byte* place = nullptr;
  {
    const auto large = pool.Lease(16'384);
    place = large->data();
  }
  CHECK(pool.idle_bytes() == 16'384);  // The large one; the others made room.
  auto older = pool.Lease(4096);
  const auto large = pool.Lease(16'384);
  CHECK(large->data() == place);
  older.reset();
  CHECK(pool.idle_bytes() == 4096);
}

TEST_CASE("a lease outlives its pool") {
  std::shared_ptr<AlignedBuffer> lease;
  {
    BufferPool pool(1 << 20);
    lease = pool.Lease(4096);
  }
  std::memset(lease->data(), 1, lease->size());
  CHECK(std::ranges::count(lease->bytes(), std::byte{1}) == 4096);
}

TEST_CASE("a pool of other memory allocates once and frees with the right function") {
  static int released = 0;
  released = 0;
  int made = 0;
  {
    BufferPool pool(1 << 20, [&made](size_t size) {
      ++made;
      auto* data = static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, size));
      return AlignedBuffer(data, size, [](std::byte* memory) {
        ++released;
        std::free(memory);
      });
    });
    for (int i = 0; i < 3; ++i) {
      const auto lease = pool.Lease(5000);
      std::memset(lease->data(), 1, lease->size());
    }
    CHECK(made == 1);
    CHECK(released == 0);
  }
  CHECK(released == 1);
}

TEST_CASE("no buffer is leased to two threads at once") {
  BufferPool pool(1 << 16);
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  std::vector<int> torn(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&pool, &torn, t] {
      Random random(static_cast<uint64_t>(t));
      for (int i = 0; i < 2000; ++i) {
        const auto lease = pool.Lease(1 + random.Below(20'000));
        const auto mark = static_cast<std::byte>(t);
        std::memset(lease->data(), t, lease->size());
        for (size_t at = 0; at < lease->size(); at += 509) {
          torn[static_cast<size_t>(t)] += lease->data()[at] != mark;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(torn == std::vector<int>(kThreads));
  CHECK(pool.idle_bytes() <= 1 << 16);
}

}  // namespace
}  // namespace simurgh
