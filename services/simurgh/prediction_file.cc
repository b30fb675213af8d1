#include "services/simurgh/prediction_file.h"

#include <array>
#include <cerrno>
#include <charconv>
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

void PredictedRows::Add(std::string_view line, bool has_prediction) {
  Row row{.cells = {}, .has_prediction = has_prediction};
  if (text_) text_->AppendCells(line, row.cells);
  MutexLock lock(mutex_);
  rows_.push_back(std::move(row));
}

void PredictedRows::AppendBad(const Row& row, std::string& text) {
  text.append(row.cells).append(tasks_ - 1, ',').push_back('\n');
  ++bad_rows_;
}

void PredictedRows::Take(std::span<const float> probabilities, std::string& text) {
  MutexLock lock(mutex_);
  for (size_t next = 0; next < probabilities.size(); rows_.pop_front()) {
    const Row& row = rows_.front();
    if (!row.has_prediction) {
      AppendBad(row, text);
      continue;
    }
    text.append(row.cells);
    for (size_t task = 0; task < tasks_; ++task) {
      std::array<char, 32> digits;
      const auto end =
          std::to_chars(digits.data(), digits.data() + digits.size(), probabilities[next++]);
      if (task > 0) text.push_back(',');
      text.append(digits.data(), end.ptr);
    }
    text.push_back('\n');
  }
}

void PredictedRows::TakeRest(std::string& text) {
  MutexLock lock(mutex_);
  for (; !rows_.empty(); rows_.pop_front()) AppendBad(rows_.front(), text);
}

}  // namespace simurgh
