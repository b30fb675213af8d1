#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "simurgh/base/status.h"

namespace simurgh {

// A file's bytes, a chunk at a time.
//
// Threads: one owner.
class ChunkedFile {
 public:
  static constexpr size_t kChunkBytes = size_t{128} * 1024;

  // Opens the file and reads its first chunk.
  // Errors: NOT_FOUND, PERMISSION_DENIED and others, naming the path; FAILED_PRECONDITION for what
  // is no regular file, a pipe or a folder: it never waits for a writer.
  static StatusOr<ChunkedFile> Open(const std::string& path);

  ~ChunkedFile();
  ChunkedFile(ChunkedFile&& other) noexcept;
  ChunkedFile& operator=(ChunkedFile&&) = delete;

  // The unread bytes of the current chunk.
  std::string_view chunk() const { return {buffer_.get() + begin_, end_ - begin_}; }

  void Consume(size_t bytes) { begin_ += bytes; }

  // Reads on once the chunk is used up; an empty chunk afterwards means the end of the file. Every
  // chunk but the last is full.
  // Errors: what the machine says of a failed read, without the path.
  Status Refill();

 private:
  explicit ChunkedFile(int descriptor);

  int descriptor_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace simurgh
