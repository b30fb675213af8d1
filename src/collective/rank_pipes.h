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

// A pipe through which one process tells another one on its machine short messages, of a length
// that both know. The reader learns at once when the writer hangs up, or is gone.
//
// Threads: one reader; one writer, but for HangUp.
class PipeReader {
 public:
  // Sizes of messages, so that each is written whole.
  static constexpr size_t kMaxBytes = 4'000;

  enum class Wait { kMessage, kNothing, kGone };

  // Without a pipe where the system gives none.
  PipeReader();

  // The file that the writer opens; -1 without a pipe. It is open here until Opened.
  int file_for_writer() const { return write_.file(); }
  void Opened() { write_ = PipeEnd(); }

  // Waits for a message, and reads it.
  Wait Read(std::span<std::byte> message, std::chrono::milliseconds patience);

 private:
  PipeEnd read_;
  PipeEnd write_;
};

class PipeWriter {
 public:
  PipeWriter() = default;

  // Opens the pipe of a reader in another process of this user. False where there is none.
  bool Open(uint64_t process, int64_t file);

  // False when the reader is gone.
  bool Write(std::span<const std::byte> message) const;
  void HangUp() const;

 private:
  PipeEnd write_;
};

}  // namespace simurgh
