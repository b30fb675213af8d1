#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <boost/asio/buffer.hpp>

#include "rpc/async.h"
#include "rpc/transport.h"

namespace simurgh::rpc {

// The cancellation slot of a wait: `stop` if connected, else the caller's.
inline asio::cancellation_slot StopOr(const asio::cancellation_slot& stop,
                                      const asio::cancellation_slot& own) {
  return stop.is_connected() ? stop : own;
}

// A connected byte stream in both directions: a TCP or Unix socket, or TLS over TCP. One read and
// one write at a time.
//
// Threads: that of the executor.
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

  // Reads available bytes without waiting.
  // Errors: would_block when there are none; asio::error::eof when the peer has closed.
  virtual Progress TryRead(std::span<const asio::mutable_buffer> buffers) = 0;

  // Waits for bytes and reads those available. `stop` (or without one, the caller's cancellation)
  // ends the wait with operation_aborted. No buffer is accessed after the return.
  // Errors: asio::error::eof when the peer has closed; operation_aborted after Close().
  [[nodiscard]] virtual awaitable<Progress> Read(std::span<const asio::mutable_buffer> buffers,
                                                 asio::cancellation_slot stop) = 0;

  // Waits until `least` bytes are available, the connection has ended or `stop` is triggered; may
  // return early. Returns false at once if the stream does not support it or its buffer is smaller.
  // Requires that the peer will send `least` bytes.
  [[nodiscard]] virtual awaitable<bool> SleepUntil(size_t /*least*/,
                                                   asio::cancellation_slot /*stop*/) {
    co_return false;
  }

  // Received bytes that have not been read, if known.
  virtual size_t unread() const { return 0; }

  // Returns whether the peer has closed its side, if known; bytes may be unread.
  virtual bool hung_up() { return false; }

  // Writes bytes without waiting and does not keep the buffers. The remaining bytes must be written
  // soon: until then the last written ones may be held back. Requires that no buffer is empty.
  // Errors: would_block when nothing can be written.
  virtual Progress TryWrite(std::span<const asio::const_buffer> buffers) = 0;

  // Posts one call of `ready`: when TryWrite() may succeed, or with an error.
  virtual void WhenWritable(std::function<void(const ErrorCode&)> ready) = 0;

  // Ends all waits. The second call does nothing.
  virtual void Close() = 0;

  // Returns whether user space copies the bytes between kernel and buffers.
  virtual bool copies() const { return false; }

  // The best size of a batch. Larger batches need fewer system calls, but delay small frames.
  virtual uint64_t batch_bytes() const { return kBatchBytes; }

  // Returns whether the peer is known to be trusted: the end of a Unix socket with this process's
  // user, or verified by TLS.
  virtual bool is_trusted() { return false; }

  // Checks that the peer's certificate, if any, permits this role.
  // Errors: UNAUTHENTICATED, naming the remedy.
  virtual Status CheckRole(const std::string& /*role*/) { return absl::OkStatus(); }

  // The peer's address, for logs.
  virtual std::string peer() const = 0;
  virtual asio::any_io_executor executor() = 0;
};

// A TCP or Unix socket.
class SocketStream : public Stream {
 public:
  explicit SocketStream(Socket socket, std::shared_ptr<FilePassing> files = nullptr);

  Progress TryRead(std::span<const asio::mutable_buffer> buffers) override;
  [[nodiscard]] awaitable<Progress> Read(std::span<const asio::mutable_buffer> buffers,
                                         asio::cancellation_slot stop) override;
  // TCP only.
  [[nodiscard]] awaitable<bool> SleepUntil(size_t least, asio::cancellation_slot stop) override;
  size_t unread() const override;
  bool hung_up() override { return HasHungUp(socket_); }
  bool is_trusted() override { return IsOwnUser(socket_); }
  Progress TryWrite(std::span<const asio::const_buffer> buffers) override;
  void WhenWritable(std::function<void(const ErrorCode&)> ready) override;
  void Close() override;
  uint64_t batch_bytes() const override;
  std::string peer() const override { return PeerName(socket_); }
  asio::any_io_executor executor() override { return socket_.get_executor(); }

 private:
  template <typename Handler>
  struct ReadEnd;

  // Reads bytes and receives files.
  [[nodiscard]] awaitable<Progress> ReadWithFiles(std::span<const asio::mutable_buffer> buffers,
                                                  asio::cancellation_slot stop);

  // Sets the number of bytes that ends a wait.
  void WakeAt(int bytes);

  Socket socket_;
  const size_t receive_buffer_;         // Bytes; 0 for Unix sockets.
  bool drained_ = false;                // The last read emptied the receive buffer.
  bool full_ = false;                   // The last write filled the send buffer.
  std::shared_ptr<FilePassing> files_;  // Null if no files are passed.
};

}  // namespace simurgh::rpc
