#pragma once

#include <cstdint>
#include <deque>

#include "rpc/waiter.h"

namespace simurgh::rpc {

// Bytes that may be under way at once; those who want more wait in line.
//
// Threads: one, that of its executor. Lifetime: outlive the waits.
class Window {
 public:
  Window(asio::any_io_executor executor, uint64_t bytes)
      : executor_(std::move(executor)), size_(bytes), free_(bytes) {}

  // What a message of this size takes: one larger than the window takes all of it.
  uint64_t Cost(uint64_t bytes) const { return std::min(bytes, size_); }

  // False when somebody must wait: then co_await Enter().
  bool TryEnter(uint64_t cost) {
    if (!line_.empty() || cost > free_) return false;
    free_ -= cost;
    return true;
  }

  // False when the deadline passed, the caller was cancelled or the window closed first.
  [[nodiscard]] awaitable<bool> Enter(uint64_t cost, Clock::time_point deadline) {
    Entry entry{.waiter = Waiter(executor_, deadline), .cost = cost};
    line_.push_back(&entry);
    if (closed_) entry.waiter.Wake();
    co_await entry.waiter.Wait();
    std::erase(line_, &entry);
    if (!entry.entered) Admit();  // Those behind may fit where this one did not.
    co_return entry.entered;
  }

  void Leave(uint64_t cost) {
    free_ += cost;
    Admit();
  }

  // Nobody is let in any more.
  void Close() {
    closed_ = true;
    for (Entry* entry : line_) entry->waiter.Wake();
  }

 private:
  struct Entry {
    Waiter waiter;
    uint64_t cost = 0;
    bool entered = false;
  };

  void Admit() {
    while (!closed_ && !line_.empty() && line_.front()->cost <= free_) {
      Entry* const entry = line_.front();
      line_.pop_front();
      free_ -= entry->cost;
      entry->entered = true;
      entry->waiter.Wake();
    }
  }

  const asio::any_io_executor executor_;
  const uint64_t size_;
  uint64_t free_;
  std::deque<Entry*> line_;
  bool closed_ = false;
};

}  // namespace simurgh::rpc
