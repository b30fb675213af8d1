#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "simurgh/base/status.h"

namespace simurgh {

// Where the reading of a file can begin: a byte of a plain file, or a gzip member or zstd frame.
struct StreamPlace {
  uint64_t text = 0;  // Bytes of text before it.
  uint64_t file = 0;  // Bytes of the file before it.
};

// A sequence of bytes that can be read once.
//
// Threads: one owner.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Reads up to `size` bytes to `data` and returns their number; 0: the end. Requires size > 0.
  // Errors: DATA_LOSS for a truncated or damaged compressed stream; FAILED_PRECONDITION if the
  // content is compressed in another format, or twice; errors of read(). The message
  // does not name the file.
  virtual StatusOr<size_t> Read(char* data, size_t size) = 0;

  // Bytes of the file, which may be compressed, that these were made of; 0: unknown.
  virtual uint64_t file_bytes() const { return 0; }

  // The last place at or before a byte of the text, or one up to 64 KiB of text before that.
  // text: at most 1 MiB before what has been read, and not before that of an earlier call.
  virtual StreamPlace PlaceBefore(uint64_t /*text*/) { return {}; }
};

// Opens a file, decompressed if its first bytes are those of gzip or zstd. Consecutive gzip members
// or zstd frames are one stream.
// Errors: NOT_FOUND, PERMISSION_DENIED and others, naming the path; FAILED_PRECONDITION unless it
// is a regular file. Blocks only with allow_pipes, which accepts files of other types.
// from: of the same file.
StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(const std::string& path,
                                                     bool allow_pipes = false,
                                                     const StreamPlace& from = {});

}  // namespace simurgh
