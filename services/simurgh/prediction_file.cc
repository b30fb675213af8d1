#include "services/simurgh/prediction_file.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(const std::string& path) {
  std::string name = path == "-" ? "stdout" : path;
  std::string temporary;
  FileDescriptor file(-1);
  std::error_code problem;
  if (path == "-") {
    file = FileDescriptor(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  } else if (std::filesystem::is_other(path, problem)) {  // A device or a pipe.
    file = FileDescriptor(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  } else {
    temporary = absl::StrCat(path, ".tmp-", getpid());
    file = FileDescriptor(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (std::filesystem::is_directory(path, problem)) errno = EISDIR;
    if (errno == EISDIR && file.valid()) {
      unlink(temporary.c_str());
      file = FileDescriptor(-1);
    }
  }
  if (!file.valid()) {
    return ErrnoStatus(errno, absl::StrCat("--output ", name, ": cannot write it"));
  }
  return std::unique_ptr<OutputFile>(
      new OutputFile(std::move(name), std::move(temporary), std::move(file)));
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status OutputFile::Write() {
  for (size_t written = 0; written < buffer_.size();) {
    const ssize_t count = write(file_.number(), buffer_.data() + written, buffer_.size() - written);
    if (count >= 0) {
      written += static_cast<size_t>(count);
    } else if (errno == EPIPE) {
      return absl::CancelledError(absl::StrCat(path_, ": its reader has ended"));
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, absl::StrCat(path_, ": cannot write it"));
    }
  }
  buffer_.clear();
  return absl::OkStatus();
}

Status OutputFile::Append(std::string_view text) {
  buffer_.append(text);
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Write();
}

Status OutputFile::Finish() {
  SIMURGH_RETURN_IF_ERROR(Write());
  if (temporary_.empty()) return absl::OkStatus();
  if (fsync(file_.number()) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat(path_, ": cannot write it"));
  }
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace simurgh
