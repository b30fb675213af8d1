#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "data/byte_stream.h"
#include "simurgh/base/status.h"
#include "simurgh/data/row_lines.h"

namespace simurgh {

// Reads lines that end in \n, \r\n or, for the last one, at the end of the stream. Skips a UTF-8
// byte order mark at the beginning.
//
// Threads: one owner.
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteStream> stream);

  // The next line; nothing after the last.
  // Lifetime: until the next call.
  // Errors: as ByteStream::Read.
  StatusOr<std::optional<Line>> Next();

  // Number, from 1, of the line that Next returned last or failed at.
  size_t line_number() const { return line_number_; }

  // Estimate of ByteStream::file_bytes() of the lines so far.
  double file_bytes() const {
    if (read_ == 0) return 0;
    const double unread = static_cast<double>(end_ - begin_) / static_cast<double>(read_);
    return static_cast<double>(stream_->file_bytes()) * (1 - unread);
  }

 private:
  Line TakeLine(size_t length, size_t end_bytes);
  // Skips the rest of the line that fills the buffer.
  StatusOr<std::optional<Line>> PassLongLine();

  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;  // Unread bytes are [begin_, end_).
  size_t end_ = 0;
  uint64_t read_ = 0;  // Bytes.
  size_t line_number_ = 0;
};

}  // namespace simurgh
