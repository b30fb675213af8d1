#pragma once

// Memory files (memfd) that one process writes and another can only read.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "rpc/file_descriptor.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

// A mapped file. Move-only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, size_t size) : data_(data), size_(size) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Memory that this process writes and the peer reads. Its size is fixed, so that reads of the peer
// cannot fault. Pages exist from their first use until they are released.
struct SharedMemory {
  Mapping mapping;      // Read and write.
  FileDescriptor file;  // For the peer: read-only, also for mmap.

  // Errors: UNAVAILABLE (no descriptors, no memfd, no /proc).
  static StatusOr<SharedMemory> Create(const char* name, size_t size);

  // Releases pages to the system; they read as zeros from then on.
  // Requires multiples of the page size.
  void Release(size_t offset, size_t length) const;
};

// Maps the peer's memory file to read.
// Errors: INVALID_ARGUMENT for a file that is not a memfd, can shrink, or has a size outside
// [min_size, max_size]; UNAVAILABLE when it cannot be mapped.
StatusOr<Mapping> MapPeerMemory(const FileDescriptor& file, uint64_t min_size, uint64_t max_size);

}  // namespace simurgh::rpc
