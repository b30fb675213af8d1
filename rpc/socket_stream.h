#pragma once

#include <memory>

#include "rpc/stream.h"
#include "rpc/transport.h"
#include "rpc/unix_socket.h"

namespace simurgh::rpc {

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

  // Also receives files.
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
