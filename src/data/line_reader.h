#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "data/byte_stream.h"
#include "simurgh/base/status.h"

namespace simurgh {

// The longest line, its end not counted.
inline constexpr size_t kMaxLineBytes = size_t{1024} * 1024;

struct Line {
  std::string_view text;  // Without its end.
  bool whole = true;      // False: it is longer than kMaxLineBytes, and nothing of it is here.
};

// The lines of a stream: ended by \n or \r\n, the last one also by the end of the stream. A UTF-8
// byte order mark at the stream's beginning is left out.
//
// Threads: one owner.
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteStream> stream);

  // The next line; nothing after the last.
  // Lifetime: until the next call.
  // Errors: as ByteStream::Read.
  StatusOr<std::optional<Line>> Next();

  // Of the line that Next answered last or failed at; counts from 1.
  size_t line_number() const { return line_number_; }

 private:
  Line TakeLine(size_t length, size_t end_bytes);
  // Goes on behind the end of the line whose beginning fills the buffer.
  StatusOr<std::optional<Line>> PassLongLine();

  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;  // Unread bytes are [begin_, end_).
  size_t end_ = 0;
  size_t line_number_ = 0;
};

}  // namespace simurgh
