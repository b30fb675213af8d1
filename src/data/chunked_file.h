#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "simurgh/base/status.h"

namespace simurgh {

// Reads a file in chunks.
//
// Threads: one owner.
class ChunkedFile {
 public:
  static constexpr size_t kChunkBytes = size_t{128} * 1024;

  // Opens the file and reads its first chunk.
  // Errors: NOT_FOUND, PERMISSION_DENIED and others, naming the path; FAILED_PRECONDITION unless it
  // is a regular file. Blocks only with allow_pipes, which accepts files of other types.
  static StatusOr<ChunkedFile> Open(const std::string& path, bool allow_pipes = false);

  ~ChunkedFile();
  ChunkedFile(ChunkedFile&& other) noexcept;
  ChunkedFile& operator=(ChunkedFile&&) = delete;

  // The unread bytes of the current chunk.
  std::string_view chunk() const { return {buffer_.get() + begin_, end_ - begin_}; }

  void Consume(size_t bytes) { begin_ += bytes; }

  // Reads the next chunk if the current one is consumed. An empty chunk is the end of the file. All
  // chunks but the last are full.
  // Errors: of read(), without the path.
  Status Refill();

 private:
  explicit ChunkedFile(int descriptor);

  int descriptor_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace simurgh
