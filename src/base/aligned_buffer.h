#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace simurgh {

// Every tensor and every received segment starts on a cache line.
inline constexpr size_t kBufferAlignment = 64;

// Owned, uninitialised, 64-byte aligned bytes. Move-only.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size);
  // Owns other memory that starts on a cache line. Threads: any may call `release`.
  AlignedBuffer(std::byte* data, size_t size, void (*release)(std::byte*))
      : data_(data), size_(size), release_(release) {}
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

  // The bytes as `count` values of T. Requires count * sizeof(T) <= size().
  template <typename T>
  std::span<T> as(size_t count) const {
    return {reinterpret_cast<T*>(data_), count};
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void (*release_)(std::byte*) = nullptr;  // Null: nothing to release.
};

// Recycles buffers to avoid allocation in steady state. Sizes are rounded up to a power of two. A
// lease returns to the pool when its last owner releases it, and may outlive the pool.
//
// Threads: all members may be called from any thread.
class BufferPool {
 public:
  // Allocates a buffer of `size` bytes.
  using Make = std::function<AlignedBuffer(size_t size)>;

  // Keeps at most `capacity_bytes` of idle buffers, preferring sizes that were leased last. make:
  // called by any thread that leases; default: ordinary memory.
  explicit BufferPool(size_t capacity_bytes, Make make = {});
  ~BufferPool();

  std::shared_ptr<AlignedBuffer> Lease(size_t size);

  size_t idle_bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace simurgh
