#include "base/aligned_buffer.h"

#include <array>
#include <bit>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace simurgh {

AlignedBuffer::AlignedBuffer(size_t size) : size_(size) {
  if (size == 0) return;
  data_ = static_cast<std::byte*>(::operator new(size, std::align_val_t(kBufferAlignment)));
  release_ = [](std::byte* data) { ::operator delete(data, std::align_val_t(kBufferAlignment)); };
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      release_(std::exchange(other.release_, nullptr)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(release_, other.release_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (release_ != nullptr) release_(data_);
}

struct BufferPool::State {
  // Idle buffers of one size.
  struct Shelf {
    std::vector<AlignedBuffer> idle;
    uint64_t last_lease = 0;  // Number of the last lease of this size.
  };

  State(size_t capacity, Make how)
      : capacity_bytes(capacity),
        make(how ? std::move(how) : [](size_t size) { return AlignedBuffer(size); }) {}

  const size_t capacity_bytes;
  const Make make;
  mutable Mutex mutex;
  std::array<Shelf, 64> shelves
      ABSL_GUARDED_BY(mutex);  // Indexed by the binary logarithm of the size.
  size_t idle_bytes ABSL_GUARDED_BY(mutex) = 0;
  uint64_t leases ABSL_GUARDED_BY(mutex) = 0;

  Shelf& ShelfOf(size_t rounded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return shelves[static_cast<size_t>(std::countr_zero(rounded))];
  }

  AlignedBuffer Take(size_t rounded) {
    {
      MutexLock lock(mutex);
      Shelf& shelf = ShelfOf(rounded);
      shelf.last_lease = ++leases;
      if (!shelf.idle.empty()) {
        AlignedBuffer buffer = std::move(shelf.idle.back());
        shelf.idle.pop_back();
        idle_bytes -= rounded;
        return buffer;
      }
    }
    return make(rounded);
  }

  void PutBack(AlignedBuffer buffer) {
    std::vector<AlignedBuffer> dropped;  // Freed after the lock.
    MutexLock lock(mutex);
    if (buffer.size() > capacity_bytes) return dropped.push_back(std::move(buffer));
    Shelf& shelf = ShelfOf(buffer.size());
    while (idle_bytes + buffer.size() > capacity_bytes) {
      Shelf& oldest = OldestShelf();
      // Frees only sizes whose last lease is older.
      if (oldest.last_lease >= shelf.last_lease) return dropped.push_back(std::move(buffer));
      idle_bytes -= oldest.idle.back().size();
      dropped.push_back(std::move(oldest.idle.back()));
      oldest.idle.pop_back();
    }
    idle_bytes += buffer.size();
    shelf.idle.push_back(std::move(buffer));
  }

  // Returns the shelf with idle buffers whose last lease is oldest. Requires idle_bytes > 0.
  Shelf& OldestShelf() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Shelf* oldest = nullptr;
    for (Shelf& shelf : shelves) {
      if (shelf.idle.empty()) continue;
      if (oldest == nullptr || shelf.last_lease < oldest->last_lease) oldest = &shelf;
    }
    return *oldest;
  }
};

BufferPool::BufferPool(size_t capacity_bytes, Make make)
    : state_(std::make_shared<State>(capacity_bytes, std::move(make))) {}

BufferPool::~BufferPool() = default;

std::shared_ptr<AlignedBuffer> BufferPool::Lease(size_t size) {
  const size_t rounded = std::bit_ceil(size < 4096 ? size_t{4096} : size);
  return std::shared_ptr<AlignedBuffer>(new AlignedBuffer(state_->Take(rounded)),
                                        [state = state_](AlignedBuffer* buffer) {
                                          state->PutBack(std::move(*buffer));
                                          delete buffer;
                                        });
}

size_t BufferPool::idle_bytes() const {
  MutexLock lock(state_->mutex);
  return state_->idle_bytes;
}

}  // namespace simurgh
