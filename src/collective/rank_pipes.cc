#include "collective/rank_pipes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// The first byte of a message.
constexpr std::byte kHangUp{0};
constexpr std::byte kMessage{1};

using Frame = std::array<std::byte, 1 + PipeReader::kMaxBytes>;

}  // namespace

PipeReader::PipeReader() {
  int ends[2] = {};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  read_ = FileDescriptor(ends[0]);
  write_ = FileDescriptor(ends[1]);
}

PipeReader::Wait PipeReader::Read(std::span<std::byte> message, std::chrono::milliseconds timeout) {
  SIMURGH_CHECK_LE(message.size(), kMaxBytes);
  pollfd ready{.fd = read_.number(), .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, static_cast<int>(timeout.count())) <= 0) return Wait::kNothing;
  Frame frame;
  // Atomic writes make whole messages.
  const ssize_t bytes = ::read(read_.number(), frame.data(), 1 + message.size());
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return Wait::kNothing;
  if (bytes != static_cast<ssize_t>(1 + message.size()) || frame[0] != kMessage) return Wait::kGone;
  std::copy_n(frame.begin() + 1, message.size(), message.begin());
  return Wait::kMessage;
}

bool PipeWriter::Open(uint64_t process, int64_t file) {
  const std::string path = absl::StrCat("/proc/", process, "/fd/", file);
  FileDescriptor end(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!end.valid() || ::fstat(end.number(), &info) != 0 || !S_ISFIFO(info.st_mode)) return false;
  write_ = std::move(end);
  return true;
}

bool PipeWriter::Write(std::span<const std::byte> message) const {
  SIMURGH_CHECK_LE(message.size(), PipeReader::kMaxBytes);
  Frame frame;
  frame[0] = kMessage;
  std::ranges::copy(message, frame.begin() + 1);
  const size_t bytes = 1 + message.size();
  return ::write(write_.number(), frame.data(), bytes) == static_cast<ssize_t>(bytes);
}

void PipeWriter::HangUp() const {
  if (write_.valid()) (void)::write(write_.number(), &kHangUp, 1);
}

}  // namespace simurgh
