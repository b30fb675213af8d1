#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace simurgh {

// Memory of one process that others on its machine read where it lies. Pages are made when they are
// first touched: so there may be room for more than is ever used, and nothing has to grow.
//
// Threads: as memory.
class SharedRegion {
 public:
  // How another process of the same user finds it. process 0: nobody does.
  struct Key {
    uint64_t process = 0;
    int64_t file = -1;
    uint64_t secret = 0;
  };

  // Null where the system refuses.
  static std::unique_ptr<SharedRegion> Create(size_t size);
  // To be read. Null where there is none: on another machine, or among processes of another
  // container.
  static std::unique_ptr<SharedRegion> Open(const Key& key, size_t size);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  const Key& key() const { return key_; }
  std::span<std::byte> bytes() const;

 private:
  SharedRegion(const Key& key, std::byte* data, size_t size)
      : key_(key), data_(data), size_(size) {}
  static std::unique_ptr<SharedRegion> Map(const Key& key, int file, size_t size, int protection);

  const Key key_;
  std::byte* const data_;  // Begins with the secret.
  const size_t size_;
};

}  // namespace simurgh
