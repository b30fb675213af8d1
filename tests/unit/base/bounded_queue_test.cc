#include "simurgh/base/bounded_queue.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

TEST_CASE("items come out in the order they went in") {
  BoundedQueue<std::unique_ptr<int>> queue(3);
  for (int i = 0; i < 3; ++i) REQUIRE(queue.Push(std::make_unique<int>(i)));
  CHECK(queue.size() == 3);
  for (int i = 0; i < 3; ++i) CHECK(**queue.Pop() == i);
  CHECK(queue.size() == 0);
}

TEST_CASE("a closed queue refuses items and gives out what it holds") {
  BoundedQueue<int> queue(2);
  REQUIRE(queue.Push(7));
  queue.Close();
  CHECK_FALSE(queue.Push(8));
  CHECK(queue.Pop() == 7);
  CHECK(queue.Pop() == std::nullopt);
}

TEST_CASE("closing wakes those who wait") {
  BoundedQueue<int> full(1);
  BoundedQueue<int> empty(1);
  REQUIRE(full.Push(1));
  std::atomic<bool> pushed = true;
  std::atomic<bool> popped = true;
  std::thread producer([&] { pushed = full.Push(2); });
  std::thread consumer([&] { popped = empty.Pop().has_value(); });
  full.Close();
  empty.Close();
  producer.join();
  consumer.join();
  CHECK_FALSE(pushed);
  CHECK_FALSE(popped);
}

TEST_CASE("nothing is lost, doubled, or held beyond the capacity") {
  constexpr int kProducers = 3;
  constexpr int kConsumers = 3;
  constexpr int kItems = 5000;
  constexpr size_t kCapacity = 4;
  BoundedQueue<int> queue(kCapacity);
  std::atomic<bool> over_capacity = false;
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kItems; ++i) queue.Push(p * kItems + i);
    });
  }
  std::vector<std::vector<int>> seen(kConsumers);
  std::vector<std::thread> consumers;
  for (auto& mine : seen) {
    consumers.emplace_back([&queue, &mine, &over_capacity] {
      while (const auto item = queue.Pop()) {
        mine.push_back(*item);
        if (queue.size() > kCapacity) over_capacity = true;
      }
    });
  }
  for (auto& thread : producers) thread.join();
  queue.Close();
  for (auto& thread : consumers) thread.join();
  std::vector<int> all;
  for (const auto& mine : seen) {
    // Each producer's items are seen in their order.
    std::vector<int> last(kProducers, -1);
    for (const int item : mine) {
      int& before = last[static_cast<size_t>(item / kItems)];
      if (item <= before) FAIL("item " << item << " came after " << before);
      before = item;
    }
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::ranges::sort(all);
  REQUIRE(all.size() == size_t{kProducers} * kItems);
  for (size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == static_cast<int>(i));
  CHECK_FALSE(over_capacity);
}

}  // namespace
}  // namespace simurgh
