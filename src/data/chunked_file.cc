#include "data/chunked_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace simurgh {

ChunkedFile::ChunkedFile(int descriptor)
    : descriptor_(descriptor), buffer_(std::make_unique_for_overwrite<char[]>(kChunkBytes)) {}

ChunkedFile::ChunkedFile(ChunkedFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)),
      begin_(std::exchange(other.begin_, 0)),
      end_(std::exchange(other.end_, 0)) {}

ChunkedFile::~ChunkedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

StatusOr<ChunkedFile> ChunkedFile::Open(const std::string& path, bool allow_pipes) {
  // O_NONBLOCK: opening a pipe would wait for its writer.
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (allow_pipes ? 0 : O_NONBLOCK));
  if (descriptor < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  ChunkedFile file(descriptor);
  struct stat about{};
  if (::fstat(descriptor, &about) != 0) return ErrnoStatus(errno, path);
  if (S_ISDIR(about.st_mode) || (!allow_pipes && !S_ISREG(about.st_mode))) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is not a regular file; write the data to one, because it is read more than once"));
  }
  SIMURGH_RETURN_IF_ERROR(Annotate(file.Refill(), path));
  return file;
}

Status ChunkedFile::Refill() {
  if (begin_ < end_) return absl::OkStatus();
  begin_ = end_ = 0;
  while (end_ < kChunkBytes) {
    const ssize_t count = ::read(descriptor_, buffer_.get() + end_, kChunkBytes - end_);
    if (count == 0) break;
    if (count > 0) {
      end_ += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, "cannot read");
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh
