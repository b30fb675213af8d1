#include "data/line_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

constexpr size_t kReadBytes = size_t{128} * 1024;
// Not part of the text. Source: Unicode 15.0, 23.8.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
// The longest line, its \r\n, and a byte order mark.
constexpr size_t kBufferBytes = kMaxLineBytes + 2 + kByteOrderMark.size();
constexpr size_t kTooLong = kBufferBytes + 1;

}  // namespace

LineReader::LineReader(std::unique_ptr<ByteStream> stream)
    : stream_(std::move(stream)), buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

Line LineReader::Take(size_t bytes) {
  std::string_view line(buffer_.get() + begin_, bytes);
  row_begin_ = begin_;
  begin_ += bytes;
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line_number_ == 1 && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.size() > kMaxLineBytes) return {.whole = false};
  return {.text = line};
}

StatusOr<std::optional<Line>> LineReader::PassLongLine() {
  const void* found = nullptr;
  do {
    SIMURGH_ASSIGN_OR_RETURN(end_, stream_->Read(buffer_.get(), kReadBytes));
    begin_ = end_;
    read_ += end_;
    found = std::memchr(buffer_.get(), '\n', end_);
  } while (found == nullptr && end_ > 0);
  if (found != nullptr) begin_ = static_cast<const char*>(found) - buffer_.get() + 1;
  return Line{.whole = false};
}

StatusOr<size_t> LineReader::FindEnd(size_t searched) {
  for (;;) {
    const char* start = buffer_.get() + begin_;
    const size_t available = end_ - begin_;
    const void* found = std::memchr(start + searched, '\n', available - searched);
    if (found != nullptr) return static_cast<const char*>(found) - start + 1;
    if (available == kBufferBytes) return kTooLong;
    std::memmove(buffer_.get(), start, available);
    begin_ = 0;
    end_ = available;
    searched = available;
    SIMURGH_ASSIGN_OR_RETURN(
        const size_t count,
        stream_->Read(buffer_.get() + end_, std::min(kReadBytes, kBufferBytes - end_)));
    if (count == 0) return available;
    end_ += count;
    read_ += count;
  }
}

Status LineReader::SkipTo(const LinePlace& place) {
  if (place.text == 0) return absl::OkStatus();
  line_number_ = place.lines;
  for (read_ = place.stream.text; read_ + 1 < place.text;) {
    SIMURGH_ASSIGN_OR_RETURN(
        const size_t count,
        stream_->Read(buffer_.get(), std::min<uint64_t>(kReadBytes, place.text - 1 - read_)));
    if (count == 0) break;
    read_ += count;
  }
  // The end of the line before, or the last byte of a file without an end of its last line.
  SIMURGH_ASSIGN_OR_RETURN(const size_t bytes, FindEnd(0));
  if (bytes != 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no row begins at byte ", place.text,
        " of its text, where the reading is to continue; restore the file that was read"));
  }
  begin_ += 1;
  return absl::OkStatus();
}

LinePlace LineReader::place() {
  const uint64_t text = read_ - (end_ - begin_);
  return {line_number_ + more_lines_, text, stream_->PlaceBefore(text == 0 ? 0 : text - 1)};
}

StatusOr<std::optional<Line>> LineReader::Next() {
  line_number_ += 1 + std::exchange(more_lines_, 0);
  SIMURGH_ASSIGN_OR_RETURN(first_bytes_, FindEnd(0));
  if (first_bytes_ == 0) return std::nullopt;
  if (first_bytes_ == kTooLong) return PassLongLine();
  return Take(first_bytes_);
}

StatusOr<std::optional<Line>> LineReader::Extend() {
  const size_t taken = begin_ - row_begin_;
  begin_ = row_begin_;
  SIMURGH_ASSIGN_OR_RETURN(const size_t bytes, FindEnd(taken));
  if (bytes == taken || bytes > kMaxLineBytes) {
    row_begin_ = begin_;
    begin_ += taken;
    return std::nullopt;
  }
  ++more_lines_;
  return Take(bytes);
}

Line LineReader::Shorten() {
  more_lines_ = 0;
  begin_ = row_begin_;
  return Take(first_bytes_);
}

}  // namespace simurgh
