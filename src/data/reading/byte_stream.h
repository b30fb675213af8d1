#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "data/reading/row_lines.h"

namespace simurgh {

// A place where reading a file can begin: a byte of a plain file, or a gzip member or zstd frame.
struct StreamPlace {
  uint64_t text = 0;  // Bytes of text before the place.
  uint64_t file = 0;  // Bytes of the file before the place.
};

// A sequence of bytes that can be read once.
//
// Threads: one owner.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Reads up to `size` bytes to `data` and returns their number; 0: the end. Requires size > 0.
  // Errors: DATA_LOSS for a truncated or damaged compressed stream; FAILED_PRECONDITION if the
  // content is compressed in another format, or twice, or text in UTF-16; those of read(). The
  // message does not name the file.
  virtual StatusOr<size_t> Read(char* data, size_t size) = 0;

  // Returns the bytes of the file, which may be compressed, that have been read; 0: unknown.
  virtual uint64_t file_bytes() const { return 0; }

  // Returns the last place at or before a byte of the text, or one up to 64 KiB of text before
  // that. text: at most 1 MiB before the end of the text read, and not before that of an earlier
  // call.
  virtual StreamPlace PlaceBefore(uint64_t /*text*/) { return {}; }
};

// Opens a file, which may be one of an object store, decompressed if its first bytes are those of
// gzip or zstd. Consecutive gzip members or zstd frames are one stream. Errors: NOT_FOUND,
// PERMISSION_DENIED and others, naming the path; FAILED_PRECONDITION unless it is a regular file.
// Blocks only with allow_pipes, which accepts files of other types. from: a place in the same file.
StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(const std::string& path,
                                                     bool allow_pipes = false,
                                                     const StreamPlace& from = {});

// The beginning of a line of a file.
struct LinePlace {
  uint64_t lines = 0;  // Lines before it.
  uint64_t text = 0;   // Bytes of text before it.
  StreamPlace stream;  // Place of the byte before it, or an earlier one.
};

// Reads lines that end in \n, \r\n or, for the last one, at the end of the stream. Skips a UTF-8
// byte order mark at the beginning.
//
// Threads: one owner.
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteStream> stream);

  // Goes to a place. Call at most once, before Next(), with a stream that begins at place.stream.
  // Errors: those of ByteStream::Read; FAILED_PRECONDITION if no line begins there.
  Status SkipTo(const LinePlace& place);

  // Returns where the next line begins.
  LinePlace place();

  // Returns the next line; nothing after the last.
  // Lifetime: until the next call.
  // Errors: those of ByteStream::Read; FAILED_PRECONDITION for a text whose lines all end in \r.
  StatusOr<std::optional<Line>> Next();

  // Extends the line that Next returned last, which was whole, by its end and the next line.
  // Returns nothing, and leaves the line as it was, if there is no next line, or if both are longer
  // than kMaxLineBytes. Lifetime, errors: those of Next.
  StatusOr<std::optional<Line>> Extend();
  // Takes back all extensions of the line.
  Line Shorten();

  // Returns the number, from 1, of the line that Next returned last or failed at.
  size_t line_number() const { return line_number_; }

  // Returns an estimate of ByteStream::file_bytes() for the lines so far.
  double file_bytes() const {
    if (read_ == 0) return 0;
    const double unread = static_cast<double>(end_ - begin_) / static_cast<double>(read_);
    return static_cast<double>(stream_->file_bytes()) * (1 - unread);
  }

 private:
  // Returns the bytes from begin_ through the first line end after `searched` of them; at the end
  // of the stream, all. kTooLong: they do not fit into the buffer.
  StatusOr<size_t> FindEnd(size_t searched);
  // Refuses a first line with ends of \r inside, and no other.
  Status CheckLineEnds() const;
  Line Take(size_t bytes);
  // Skips the rest of the line that fills the buffer.
  StatusOr<std::optional<Line>> PassLongLine();

  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;  // Unread bytes are [begin_, end_).
  size_t end_ = 0;
  uint64_t read_ = 0;  // Bytes of the text.
  // The last line is [row_begin_, begin_), with its end.
  size_t row_begin_ = 0;
  size_t first_bytes_ = 0;  // Bytes of the last line with its end, without extensions.
  size_t more_lines_ = 0;   // Number of extensions of the last line.
  size_t line_number_ = 0;
};

}  // namespace simurgh
