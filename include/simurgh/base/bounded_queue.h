#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "simurgh/base/mutex.h"

namespace simurgh {

// A first-in first-out hand-over between threads that holds at most `capacity` items: a full queue
// blocks its producers, an empty one its consumers. For batches, not for rows.
//
// Threads: all members may be called from any thread.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Waits for room. False, and the item is dropped, once the queue is closed.
  bool Push(T item) {
    MutexLock lock(mutex_);
    while (items_.size() >= capacity_ && !closed_) room_.Wait(mutex_);
    if (closed_) return false;
    items_.push_back(std::move(item));
    filled_.NotifyOne();
    return true;
  }

  // Waits for an item. Nothing once the queue is closed and empty.
  std::optional<T> Pop() {
    MutexLock lock(mutex_);
    while (items_.empty() && !closed_) filled_.Wait(mutex_);
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    room_.NotifyOne();
    return item;
  }

  // No more pushes; what is queued can still be popped.
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    room_.NotifyAll();
    filled_.NotifyAll();
  }

  size_t size() const {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  mutable Mutex mutex_;
  CondVar room_;
  CondVar filled_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace simurgh
