#pragma once

// Files in memory (memfd) through which one process shows memory of its own to another, which
// cannot change it.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "rpc/file_descriptor.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

// Pages of a file in this process's address space. Move-only.
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

// Memory that we write and a peer may read. Of one size for ever, so that no reader can be made to
// fault; pages exist from their first use until they are given back.
struct SharedMemory {
  Mapping mapping;      // Reads and writes.
  FileDescriptor file;  // For the peer: cannot be written, nor mapped to write.

  // Errors: UNAVAILABLE when the system gives none (no descriptors, no memfd, no /proc).
  static StatusOr<SharedMemory> Create(const char* name, size_t size);

  // Gives pages back; they read as zeros from then on. Both multiples of the page size.
  void GiveBack(size_t offset, size_t length) const;
};

// Memory that the peer shows us, mapped to read.
// Errors: INVALID_ARGUMENT for a file that is not of this kind, may still shrink, or has a size
// outside [min_size, max_size]; UNAVAILABLE when it cannot be mapped.
StatusOr<Mapping> MapPeerMemory(const FileDescriptor& file, uint64_t min_size, uint64_t max_size);

}  // namespace simurgh::rpc
