#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "simurgh/base/file_descriptor.h"

namespace simurgh {

// Memory that other processes on the machine can read. The kernel allocates pages on first use, so
// the region can be larger than ever needed and never grows.
//
// Threads: as plain memory.
class SharedRegion {
 public:
  // Lets another process of the same user open the region. process 0: none can.
  struct Key {
    uint64_t process = 0;
    int64_t file = -1;
    uint64_t secret = 0;
  };

  // Returns null if the system refuses.
  static std::unique_ptr<SharedRegion> Create(size_t size);
  // Opens a region for reading. Returns null if it is not visible, as on another machine or in
  // another container.
  static std::unique_ptr<SharedRegion> Open(const Key& key, size_t size);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  const Key& key() const { return key_; }
  std::span<std::byte> bytes() const;

 private:
  SharedRegion(const Key& key, std::byte* data, size_t size)
      : key_(key), data_(data), size_(size) {}
  static std::unique_ptr<SharedRegion> Map(const Key& key, const FileDescriptor& file, size_t size,
                                           int protection);

  const Key key_;
  FileDescriptor file_;    // For Open in other processes.
  std::byte* const data_;  // Begins with the secret.
  const size_t size_;
};

}  // namespace simurgh
