#include "data/reading/byte_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/file_descriptor.h"
#include "config/data_config.h"
#include "config/uri.h"
#include "data/reading/remote_file.h"

namespace simurgh {
namespace {

// Reads a file in chunks.
//
// Threads: one owner.
class ChunkedFile {
 public:
  static constexpr size_t kChunkBytes = size_t{128} * 1024;

  // Opens the file and reads its first chunk. allow_pipes, errors: see OpenByteStream.
  static StatusOr<ChunkedFile> Open(const std::string& path, bool allow_pipes) {
    if (IsUri(path)) {
      auto reader = RemoteFileReader::Open(path);
      if (!reader.ok()) return Annotate(reader.status(), path);
      ChunkedFile file(std::move(*reader));
      SIMURGH_RETURN_IF_ERROR(Annotate(file.Refill(), path));
      return file;
    }
    // O_NONBLOCK: opening a pipe would wait for its writer.
    FileDescriptor opened(
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (allow_pipes ? 0 : O_NONBLOCK)));
    if (!opened.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
    struct stat about{};
    if (::fstat(opened.number(), &about) != 0) return ErrnoStatus(errno, path);
    if (S_ISDIR(about.st_mode) || (!allow_pipes && !S_ISREG(about.st_mode))) {
      return absl::FailedPreconditionError(absl::StrCat(
          path,
          " is not a regular file; write the data to one, because it is read more than once"));
    }
    ChunkedFile file(std::move(opened));
    SIMURGH_RETURN_IF_ERROR(Annotate(file.Refill(), path));
    return file;
  }

  // Returns the unread bytes of the current chunk.
  std::string_view chunk() const { return {buffer_.get() + begin_, end_ - begin_}; }

  void Consume(size_t bytes) {
    begin_ += bytes;
    consumed_ += bytes;
  }

  uint64_t consumed() const { return consumed_; }

  // Continues at another byte. Errors: those of Refill.
  Status Seek(uint64_t byte) {
    if (remote_ != nullptr) {
      remote_->Seek(byte);
    } else if (::lseek(file_.number(), static_cast<off_t>(byte), SEEK_SET) < 0) {
      return ErrnoStatus(errno, "cannot seek");
    }
    begin_ = end_ = 0;
    consumed_ = byte;
    return Refill();
  }

  // Reads the next chunk if the current one is consumed. An empty chunk is the end of the file. All
  // chunks but the last are full.
  // Errors: those of read(), without the path.
  Status Refill() {
    if (begin_ < end_) return absl::OkStatus();
    begin_ = end_ = 0;
    while (end_ < kChunkBytes) {
      if (remote_ != nullptr) {
        SIMURGH_ASSIGN_OR_RETURN(const size_t count,
                                 remote_->Read(buffer_.get() + end_, kChunkBytes - end_));
        if (count == 0) break;
        end_ += count;
        continue;
      }
      const ssize_t count = ::read(file_.number(), buffer_.get() + end_, kChunkBytes - end_);
      if (count == 0) break;
      if (count > 0) {
        end_ += static_cast<size_t>(count);
      } else if (errno != EINTR) {
        return ErrnoStatus(errno, "cannot read");
      }
    }
    return absl::OkStatus();
  }

 private:
  explicit ChunkedFile(FileDescriptor file) : file_(std::move(file)) {}
  explicit ChunkedFile(std::unique_ptr<RemoteFileReader> file) : remote_(std::move(file)) {}

  // The file is one of these.
  FileDescriptor file_;
  std::unique_ptr<RemoteFileReader> remote_;
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kChunkBytes);
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t consumed_ = 0;  // Bytes of the file.
};

// Members or frames of a compressed file that have begun.
//
// Memory: 16 bytes for each 64 KiB between a reader and its callers.
class Restarts {
 public:
  explicit Restarts(const StreamPlace& from) : text_(from.text), places_{from} {}

  // Adds a member or frame that begins at this byte of the file.
  void Begin(uint64_t file) {
    constexpr uint64_t kDistance = uint64_t{64} * 1024;
    if (text_ >= places_.back().text + kDistance) places_.push_back({text_, file});
  }
  void Add(uint64_t text) { text_ += text; }

  StreamPlace Before(uint64_t text) {
    while (places_.size() > 1 && places_[1].text <= text) places_.pop_front();
    return places_.front();
  }

 private:
  uint64_t text_;  // Bytes of text so far.
  std::deque<StreamPlace> places_;
};

// Decompresses members (gzip) or frames (zstd), one after the other.
class CompressedStream : public ByteStream {
 public:
  // format: for errors, of static storage duration.
  CompressedStream(const char* format, ChunkedFile file, const StreamPlace& from)
      : format_(format), file_(std::move(file)), restarts_(from) {}
  CompressedStream(const CompressedStream&) = delete;
  CompressedStream& operator=(const CompressedStream&) = delete;

  StatusOr<size_t> Read(char* data, size_t size) final {
    size = std::min<size_t>(size, std::numeric_limits<uInt>::max());  // The limit of zlib.
    for (;;) {
      if (!output_waiting_) {
        SIMURGH_RETURN_IF_ERROR(file_.Refill());
        if (file_.chunk().empty()) {
          if (!in_member_) return 0;
          return absl::DataLossError(absl::StrCat(
              "the ", format_, " stream ends too early; write or copy the file again"));
        }
      }
      if (!in_member_) {
        Begin();
        restarts_.Begin(file_.consumed());
      }
      const Decoded decoded = Decode(file_.chunk(), data, size);
      if (decoded.problem != nullptr) {
        return absl::DataLossError(absl::StrCat("the ", format_, " stream is damaged (",
                                                decoded.problem,
                                                "); write or copy the file again"));
      }
      file_.Consume(decoded.consumed);
      in_member_ = !decoded.ends;
      output_waiting_ = in_member_ && decoded.produced == size;
      restarts_.Add(decoded.produced);
      if (decoded.produced > 0) return decoded.produced;
    }
  }

  uint64_t file_bytes() const final { return file_.consumed(); }
  StreamPlace PlaceBefore(uint64_t text) final { return restarts_.Before(text); }

 protected:
  struct Decoded {
    size_t consumed = 0;
    size_t produced = 0;
    bool ends = false;              // The member or frame ends.
    const char* problem = nullptr;  // Problem of damaged input.
  };

 private:
  // Prepares the decoder for a member or frame, before its first byte.
  virtual void Begin() {}
  virtual Decoded Decode(std::string_view input, char* data, size_t size) = 0;

  const char* const format_;
  ChunkedFile file_;
  Restarts restarts_;
  bool in_member_ = false;       // A member or frame has begun and not ended.
  bool output_waiting_ = false;  // The decoder may hold bytes that did not fit.
};

constexpr int kGzipWrapper = 16;  // Addend to the window size: expect gzip's header, not zlib's.

class GzipStream final : public CompressedStream {
 public:
  GzipStream(ChunkedFile file, const StreamPlace& from)
      : CompressedStream("gzip", std::move(file), from) {
    SIMURGH_CHECK(inflateInit2(&inflater_, MAX_WBITS + kGzipWrapper) == Z_OK) << "out of memory";
  }
  ~GzipStream() override { inflateEnd(&inflater_); }

 private:
  void Begin() override { inflateReset(&inflater_); }

  Decoded Decode(std::string_view input, char* data, size_t size) override {
    inflater_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    inflater_.avail_in = static_cast<uInt>(input.size());
    inflater_.next_out = reinterpret_cast<Bytef*>(data);
    inflater_.avail_out = static_cast<uInt>(size);
    const int result = inflate(&inflater_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return {.problem = inflater_.msg != nullptr ? inflater_.msg : zError(result)};
    }
    return {.consumed = input.size() - inflater_.avail_in,
            .produced = size - inflater_.avail_out,
            .ends = result == Z_STREAM_END};
  }

  z_stream inflater_{};
};

class ZstdStream final : public CompressedStream {
 public:
  ZstdStream(ChunkedFile file, const StreamPlace& from)
      : CompressedStream("zstd", std::move(file), from), decoder_(ZSTD_createDCtx()) {
    SIMURGH_CHECK(decoder_ != nullptr) << "out of memory";
  }
  ~ZstdStream() override { ZSTD_freeDCtx(decoder_); }

 private:
  Decoded Decode(std::string_view chunk, char* data, size_t size) override {
    ZSTD_inBuffer input{chunk.data(), chunk.size(), 0};
    ZSTD_outBuffer output{data, size, 0};
    const size_t result = ZSTD_decompressStream(decoder_, &output, &input);
    if (ZSTD_isError(result) != 0) return {.problem = ZSTD_getErrorName(result)};
    return {.consumed = input.pos, .produced = output.pos, .ends = result == 0};
  }

  ZSTD_DCtx* decoder_;  // Owned.
};

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(ChunkedFile file) : file_(std::move(file)) {}

  StatusOr<size_t> Read(char* data, size_t size) override {
    SIMURGH_RETURN_IF_ERROR(file_.Refill());
    const size_t count = std::min(size, file_.chunk().size());
    std::memcpy(data, file_.chunk().data(), count);
    file_.Consume(count);
    return count;
  }
  uint64_t file_bytes() const override { return file_.consumed(); }
  StreamPlace PlaceBefore(uint64_t text) override { return {text, text}; }

 private:
  ChunkedFile file_;
};

// Returns whether the data is gzip. Source: RFC 1952, 2.3.1.
bool IsGzip(std::string_view start) { return start.starts_with("\x1f\x8b"); }

// Returns whether the data is a zstd frame, or a skippable one: 0x184D2A50 to 5F, little-endian.
// Source: RFC 8878, 3.1.
bool IsZstd(std::string_view start) {
  if (start.starts_with("\x28\xb5\x2f\xfd")) return true;
  return start.size() >= 4 && (static_cast<uint8_t>(start[0]) & 0xf0) == 0x50 &&
         start.substr(1).starts_with("\x2a\x4d\x18");
}

// Returns the format of compressed data that begins so; empty for an unknown one.
// Source: magic(5) of file 5.44, "compress" and "archive".
std::string_view CompressionOf(std::string_view start) {
  using std::string_view_literals::operator""sv;
  constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
      {"\xfd\x37zXZ\0"sv, "xz"},
      {"PK\x03\x04"sv, "zip"},
      {"7z\xbc\xaf\x27\x1c"sv, "7z"},
      {"\x04\x22M\x18"sv, "lz4"},
      {"\x1f\x9d"sv, "compress"}};
  for (const auto& [magic, name] : kFormats) {
    if (start.starts_with(magic)) return name;
  }
  if (start.size() > 4 && start.starts_with("BZh") && start.substr(4).starts_with("1AY&SY"))
    return "bzip2";
  if (IsGzip(start)) return "gzip";
  return IsZstd(start) ? "zstd" : std::string_view();
}

// Remedies of TextStream.
constexpr char kOther[] = "decompress it first, or use gzip or zstd";
constexpr char kTwice[] = "the data is compressed twice; decompress it once";

// Refuses data that is still compressed, or UTF-16.
class TextStream final : public ByteStream {
 public:
  // remedy: for compressed data, of static storage duration.
  TextStream(std::unique_ptr<ByteStream> stream, const char* remedy)
      : stream_(std::move(stream)), remedy_(remedy) {}

  StatusOr<size_t> Read(char* data, size_t size) override {
    SIMURGH_ASSIGN_OR_RETURN(const size_t count, stream_->Read(data, size));
    if (std::exchange(is_checked_, true)) return count;
    const std::string_view start(data, count);
    if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff")) {
      return absl::FailedPreconditionError(
          "is text in UTF-16; convert it: iconv -f UTF-16 -t UTF-8 in.csv > out.csv");
    }
    const std::string_view format = CompressionOf(start);
    if (format.empty()) return count;
    return absl::FailedPreconditionError(
        absl::StrCat("is compressed by ", std::string(format), "; ", remedy_));
  }
  uint64_t file_bytes() const override { return stream_->file_bytes(); }
  StreamPlace PlaceBefore(uint64_t text) override { return stream_->PlaceBefore(text); }

 private:
  const std::unique_ptr<ByteStream> stream_;
  const char* const remedy_;
  bool is_checked_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(const std::string& path, bool allow_pipes,
                                                     const StreamPlace& from) {
  SIMURGH_ASSIGN_OR_RETURN(ChunkedFile file, ChunkedFile::Open(path, allow_pipes));
  const bool is_gzip = IsGzip(file.chunk());
  const bool is_zstd = IsZstd(file.chunk());
  if (from.file > 0) SIMURGH_RETURN_IF_ERROR(Annotate(file.Seek(from.file), path));
  std::unique_ptr<ByteStream> stream;
  if (is_gzip) {
    stream = std::make_unique<GzipStream>(std::move(file), from);
  } else if (is_zstd) {
    stream = std::make_unique<ZstdStream>(std::move(file), from);
  } else {
    stream = std::make_unique<PlainStream>(std::move(file));
  }
  if (from.file > 0) return stream;
  return std::make_unique<TextStream>(std::move(stream), is_gzip || is_zstd ? kTwice : kOther);
}

namespace {

constexpr size_t kReadBytes = size_t{128} * 1024;
// The byte order mark of UTF-8, which is not part of the text. Source: Unicode 15.0, 23.8.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
// Room for the longest line, its \r\n, and a byte order mark.
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
  // Takes the end of the line before, or the last byte of a file whose last line has no end.
  SIMURGH_ASSIGN_OR_RETURN(const size_t bytes, FindEnd(0));
  if (bytes != 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no row begins at byte ", place.text,
        " of its text, where the reading is to continue; restore the file that was read"));
  }
  begin_ += 1;
  return absl::OkStatus();
}

Status LineReader::CheckLineEnds() const {
  std::string_view line(buffer_.get() + begin_, std::min(first_bytes_, end_ - begin_));
  if (line.ends_with('\n')) return absl::OkStatus();
  line.remove_suffix(1);  // An \r at the end of a single line is part of its end.
  if (line.find('\r') == line.npos) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "lines end in CR only, which is not supported; convert it: tr '\\r' '\\n' < in.csv > "
      "out.csv");
}

LinePlace LineReader::place() {
  const uint64_t text = read_ - (end_ - begin_);
  return {line_number_ + more_lines_, text, stream_->PlaceBefore(text == 0 ? 0 : text - 1)};
}

StatusOr<std::optional<Line>> LineReader::Next() {
  line_number_ += 1 + std::exchange(more_lines_, 0);
  SIMURGH_ASSIGN_OR_RETURN(first_bytes_, FindEnd(0));
  if (first_bytes_ == 0) return std::nullopt;
  if (line_number_ == 1) SIMURGH_RETURN_IF_ERROR(CheckLineEnds());
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
