#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "rpc/async.h"

namespace simurgh::rpc {

// A limit of bytes in flight, with a FIFO queue of waiting coroutines.
//
// Threads: that of the executor. Lifetime: outlives the waits.
class Window {
 public:
  Window(asio::any_io_executor executor, uint64_t bytes)
      : executor_(std::move(executor)), size_(bytes), free_(bytes) {}

  // The bytes that a message takes: at most the whole window.
  uint64_t Cost(uint64_t bytes) const { return std::min(bytes, size_); }

  // Returns false if the caller must wait with Enter().
  bool TryEnter(uint64_t cost) {
    if (!line_.empty() || !Fits(cost)) return false;
    free_ -= cost;
    return true;
  }

  // Enters at once, also above the limit. Nothing else then enters until there is room again.
  void Take(uint64_t cost) { free_ -= cost; }

  // Returns false when the deadline passed, the caller was cancelled, the window closed, or
  // Withdraw() was called for the owner first.
  [[nodiscard]] awaitable<bool> Enter(uint64_t cost, Clock::time_point deadline,
                                      const void* owner = nullptr) {
    Entry entry{
        .window = *this, .waiter = Waiter(executor_, deadline), .cost = cost, .owner = owner};
    line_.push_back(&entry);
    if (closed_) entry.waiter.Wake();
    Admit();  // Bytes may have left since TryEnter().
    co_await entry.waiter.Wait();
    std::erase(line_, &entry);
    if (!entry.entered) Admit();  // The next entries may fit.
    co_return entry.entered;
  }

  void Leave(uint64_t cost) {
    free_ += cost;
    Admit();
  }

  // Changes with each wait that succeeds, and with NoteTurn().
  uint64_t turns() const { return turns_; }
  void NoteTurn() { ++turns_; }

  // Fails the current waits of the owner.
  void Withdraw(const void* owner) {
    for (Entry* entry : line_) {
      if (entry->owner == owner) entry->waiter.Wake();
    }
  }

  // Fails all current and later waits.
  void Close() {
    closed_ = true;
    for (Entry* entry : line_) entry->waiter.Wake();
  }

 private:
  struct Entry {
    // The event loop may end, and destroy the coroutine, during the wait.
    ~Entry() { std::erase(window.line_, this); }

    Window& window;
    Waiter waiter;
    uint64_t cost = 0;
    const void* owner = nullptr;
    bool entered = false;
  };

  // `free_` is modulo 2^64, so that it can fall below 0.
  bool Fits(uint64_t cost) const { return free_ <= size_ && cost <= free_; }

  void Admit() {
    while (!closed_ && !line_.empty() && Fits(line_.front()->cost)) {
      Entry* const entry = line_.front();
      line_.pop_front();
      free_ -= entry->cost;
      entry->entered = true;
      NoteTurn();
      entry->waiter.Wake();
    }
  }

  const asio::any_io_executor executor_;
  const uint64_t size_;
  uint64_t free_;
  uint64_t turns_ = 0;
  std::deque<Entry*> line_;
  bool closed_ = false;
};

// One holder's part of a window. Invariant: `bytes` is the sum of its shares.
struct WindowHolding {
  const std::shared_ptr<Window> window;
  uint64_t bytes = 0;
};

// Bytes that have entered a window, are held with this and leave with it. Move-only; empty by
// default.
class WindowShare {
 public:
  WindowShare() = default;
  WindowShare(std::shared_ptr<WindowHolding> holding, uint64_t cost)
      : holding_(std::move(holding)), cost_(cost) {
    holding_->bytes += cost_;
  }
  WindowShare(WindowShare&& other) noexcept
      : holding_(std::move(other.holding_)), cost_(std::exchange(other.cost_, 0)) {}
  WindowShare& operator=(WindowShare&& other) noexcept {
    std::swap(holding_, other.holding_);
    std::swap(cost_, other.cost_);
    return *this;
  }
  bool empty() const { return holding_ == nullptr; }
  uint64_t cost() const { return cost_; }
  ~WindowShare() {
    if (holding_ == nullptr) return;
    holding_->bytes -= cost_;
    holding_->window->Leave(cost_);
  }

 private:
  std::shared_ptr<WindowHolding> holding_;
  uint64_t cost_ = 0;
};

}  // namespace simurgh::rpc
