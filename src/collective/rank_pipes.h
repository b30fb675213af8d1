#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace simurgh {

// An end of a pipe.
class PipeEnd {
 public:
  PipeEnd() = default;
  explicit PipeEnd(int file) : file_(file) {}
  PipeEnd(PipeEnd&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  PipeEnd& operator=(PipeEnd&& other) noexcept;
  ~PipeEnd();

  int file() const { return file_; }
  bool valid() const { return file_ >= 0; }

 private:
  int file_ = -1;
};

// A pipe for short messages between two processes on one machine; both know each message's length.
// The reader notices at once when the writer hangs up or ends.
//
// Threads: one reader, one writer; HangUp from any thread.
class PipeReader {
 public:
  // Message size that the kernel writes atomically.
  static constexpr size_t kMaxBytes = 4'000;

  enum class Wait { kMessage, kNothing, kGone };

  // Has no pipe if the system refuses one.
  PipeReader();

  // The file for PipeWriter::Open; -1 without a pipe. Closed by Opened.
  int file_for_writer() const { return write_.file(); }
  void Opened() { write_ = PipeEnd(); }

  // Waits for a message and reads it. kNothing: no message within the timeout.
  Wait Read(std::span<std::byte> message, std::chrono::milliseconds timeout);

 private:
  PipeEnd read_;
  PipeEnd write_;
};

class PipeWriter {
 public:
  PipeWriter() = default;

  // Opens the pipe of a reader in another process of this user. Returns whether that succeeded.
  bool Open(uint64_t process, int64_t file);

  // Returns false when the reader has ended.
  bool Write(std::span<const std::byte> message) const;
  void HangUp() const;

 private:
  PipeEnd write_;
};

}  // namespace simurgh
