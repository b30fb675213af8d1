#pragma once

// Memory files (memfd) that one process writes and another can only read.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "simurgh/base/file_descriptor.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

// A mapped file. Move-only.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

 private:
  std::span<std::byte> bytes_;
};

// Memory that this process writes and the peer reads. Its size is fixed, so that reads of the peer
// cannot fault. Pages exist from their first use until they are released.
struct SharedMemory {
  Mapping mapping;      // Read and write.
  FileDescriptor file;  // For the peer: read-only, also for mmap.

  // Errors: UNAVAILABLE (no descriptors, no memfd, no /proc).
  static StatusOr<SharedMemory> Create(const char* name, size_t size);
};

// Maps the peer's memory file to read.
// Errors: INVALID_ARGUMENT for a file that is not a memfd, can shrink, or has a size outside
// [min_size, max_size]; UNAVAILABLE when it cannot be mapped.
StatusOr<Mapping> MapPeerMemory(const FileDescriptor& file, uint64_t min_size, uint64_t max_size);

}  // namespace simurgh::rpc
