#include "services/simurgh/output.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Path of the file that the handler of signals removes. The handler can call few functions.
std::atomic<const char*> unfinished = nullptr;
static_assert(std::atomic<const char*>::is_always_lock_free);

void RemoveAndEnd(int signal) {
  if (const char* const name = unfinished) unlink(name);
  std::signal(signal, SIG_DFL);
  (void)std::raise(signal);  // The signal takes effect when the handler returns.
}

}  // namespace

std::string OwnCommand() {
  std::ifstream words("/proc/self/cmdline", std::ios::binary);
  std::string first;
  std::getline(words, first, '\0');
  return first.empty() ? "simurgh" : ShellWord(first);
}

UnfinishedFile::UnfinishedFile(std::string path)
    : path_(std::move(path)), name_(absl::StrCat(path_, ".tmp-", getpid())) {
  unfinished = name_.c_str();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // nohup and shells ignore signals for their children.
    if (std::signal(signal, RemoveAndEnd) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (unfinished.exchange(nullptr) != nullptr) unlink(name_.c_str());
}

Status UnfinishedFile::Finish() {
  if (rename(name_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat(path_, ": cannot write it"));
  }
  unfinished = nullptr;
  return absl::OkStatus();
}

Status CheckReplacesNone(const std::vector<std::string>& files, const std::string& output,
                         const char* option) {
  for (const std::string& file : files) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(file, output, ignored)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        option, " ", output, ": is the input, which it would replace; name another file"));
  }
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(const std::string& path,
                                                       const char* option) {
  std::string name = path == "-" ? "stdout" : path;
  std::unique_ptr<UnfinishedFile> temporary;
  FileDescriptor file(-1);
  std::error_code problem;
  if (path == "-") {
    file = FileDescriptor(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  } else if (std::filesystem::is_other(path, problem)) {  // The path is a device or a pipe.
    file = FileDescriptor(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  } else if (std::filesystem::is_directory(path, problem)) {
    errno = EISDIR;
  } else {
    temporary = std::make_unique<UnfinishedFile>(path);
    file = FileDescriptor(
        open(temporary->name().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  }
  if (!file.valid()) {
    return ErrnoStatus(errno, absl::StrCat(option, " ", name, ": cannot write it"));
  }
  return std::unique_ptr<OutputFile>(
      new OutputFile(std::move(name), std::move(temporary), std::move(file)));
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
  if (unfinished_ == nullptr) return absl::OkStatus();
  if (fsync(file_.number()) != 0) {
    return ErrnoStatus(errno, absl::StrCat(path_, ": cannot write it"));
  }
  return unfinished_->Finish();
}

}  // namespace simurgh
