#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <boost/asio/buffer.hpp>

#include "rpc/async.h"

namespace simurgh::rpc {

// What ends a wait: `stop` if that is one, else the caller's own.
inline asio::cancellation_slot StopOr(const asio::cancellation_slot& stop,
                                      const asio::cancellation_slot& own) {
  return stop.is_connected() ? stop : own;
}

// A connected, ordered stream of bytes in both directions: a TCP or Unix socket, or TLS over TCP.
// One read and one write at a time.
//
// Threads: one, that of its executor.
class Stream {
 public:
  using ErrorCode = boost::system::error_code;
  struct Progress {
    ErrorCode error;
    size_t bytes = 0;
  };

  // 0.4 ms at 10 Gbit/s.
  static constexpr uint64_t kBatchBytes = 524'288;

  virtual ~Stream() = default;

  // Reads as many bytes as are there and fit, without waiting.
  // Errors: would_block when there are none; asio::error::eof when the peer has closed.
  virtual Progress TryRead(std::span<const asio::mutable_buffer> buffers) = 0;

  // Waits for bytes and reads as many as are there and fit. `stop` ends the wait with
  // operation_aborted; without one, the caller's cancellation does. Once this has returned, no
  // buffer is touched any more.
  // Errors: asio::error::eof when the peer has closed; operation_aborted after Close().
  [[nodiscard]] virtual awaitable<Progress> Read(std::span<const asio::mutable_buffer> buffers,
                                                 asio::cancellation_slot stop) = 0;

  // Where `least` bytes are sure to come: a stream that can, and whose buffer holds them, lets the
  // thread sleep until they are there, the connection has ended or `stop` ends the wait; now and
  // then less. TryRead() tells. False, at once, when it cannot.
  [[nodiscard]] virtual awaitable<bool> SleepUntil(size_t /*least*/,
                                                   asio::cancellation_slot /*stop*/) {
    co_return false;
  }

  // Bytes that have come and have not been read, as far as the stream knows.
  virtual size_t unread() const { return 0; }

  // Whether the other end has closed its side, as far as the stream knows; bytes may be unread.
  virtual bool hung_up() { return false; }

  // Writes as many bytes as go without waiting; the buffers are free again when it returns. Those
  // left must be written soon: until then, the last ones written may be held back. Requires that no
  // buffer is empty.
  // Errors: would_block when none goes.
  virtual Progress TryWrite(std::span<const asio::const_buffer> buffers) = 0;

  // Calls `ready` later, once, when TryWrite may get on, or with the reason why it never will.
  virtual void WhenWritable(std::function<void(const ErrorCode&)> ready) = 0;

  // Ends what waits. Does nothing the second time.
  virtual void Close() = 0;

  // Whether bytes are copied on their way, in user space, between the kernel and where they lie.
  virtual bool copies() const { return false; }

  // As much as is best composed at a time: more takes fewer calls at both ends, but a small frame
  // waits longer for its turn.
  virtual uint64_t batch_bytes() const { return kBatchBytes; }

  // The other end, for logs.
  virtual std::string peer() const = 0;
  virtual asio::any_io_executor executor() = 0;
};

}  // namespace simurgh::rpc
