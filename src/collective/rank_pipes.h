#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/base/file_descriptor.h"

namespace simurgh {

// A pipe for short messages between two processes on one machine; the length of each message is
// agreed. The reader notices at once when the writer hangs up or ends.
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
  int file_for_writer() const { return write_.number(); }
  void Opened() { write_ = FileDescriptor(); }

  // Waits for a message and reads it. kNothing: no message within the timeout.
  Wait Read(std::span<std::byte> message, std::chrono::milliseconds timeout);

 private:
  FileDescriptor read_;
  FileDescriptor write_;
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
  FileDescriptor write_;
};

}  // namespace simurgh
