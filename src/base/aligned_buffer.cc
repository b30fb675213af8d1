#include "simurgh/base/aligned_buffer.h"

#include <array>
#include <bit>
#include <new>
#include <utility>
#include <vector>

#include "simurgh/base/mutex.h"

namespace simurgh {

AlignedBuffer::AlignedBuffer(size_t size) : size_(size) {
  if (size == 0) return;
  data_ = static_cast<std::byte*>(::operator new(size, std::align_val_t(kBufferAlignment)));
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) ::operator delete(data_, std::align_val_t(kBufferAlignment));
}

struct BufferPool::State {
  explicit State(size_t capacity) : capacity_bytes(capacity) {}

  const size_t capacity_bytes;
  mutable Mutex mutex;
  // By the binary logarithm of their size.
  std::array<std::vector<AlignedBuffer>, 64> idle ABSL_GUARDED_BY(mutex);
  size_t idle_bytes ABSL_GUARDED_BY(mutex) = 0;

  AlignedBuffer Take(size_t rounded) {
    {
      MutexLock lock(mutex);
      auto& shelf = idle[static_cast<size_t>(std::countr_zero(rounded))];
      if (!shelf.empty()) {
        AlignedBuffer buffer = std::move(shelf.back());
        shelf.pop_back();
        idle_bytes -= rounded;
        return buffer;
      }
    }
    return AlignedBuffer(rounded);
  }

  void PutBack(AlignedBuffer buffer) {
    MutexLock lock(mutex);
    if (idle_bytes + buffer.size() > capacity_bytes) return;
    idle_bytes += buffer.size();
    idle[static_cast<size_t>(std::countr_zero(buffer.size()))].push_back(std::move(buffer));
  }
};

BufferPool::BufferPool(size_t capacity_bytes) : state_(std::make_shared<State>(capacity_bytes)) {}

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
