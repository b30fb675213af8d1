#pragma once

#include <memory>

#include "rpc/file_passing.h"
#include "rpc/stream.h"
#include "rpc/transport.h"

namespace simurgh::rpc {

// Bytes over a TCP or Unix socket, between the kernel and where they lie.
class SocketStream : public Stream {
 public:
  explicit SocketStream(Socket socket, std::shared_ptr<FilePassing> files = nullptr);

  Progress TryRead(std::span<const asio::mutable_buffer> buffers) override;
  [[nodiscard]] awaitable<Progress> Read(std::span<const asio::mutable_buffer> buffers,
                                         asio::cancellation_slot stop) override;
  // Over TCP.
  [[nodiscard]] awaitable<bool> SleepUntil(size_t least, asio::cancellation_slot stop) override;
  size_t unread() const override;
  bool hung_up() override { return HasHungUp(socket_); }
  Progress TryWrite(std::span<const asio::const_buffer> buffers) override;
  void WhenWritable(std::function<void(const ErrorCode&)> ready) override;
  void Close() override;
  uint64_t batch_bytes() const override;
  std::string peer() const override { return PeerName(socket_); }
  asio::any_io_executor executor() override { return socket_.get_executor(); }

 private:
  template <typename Handler>
  struct ReadEnd;

  // Of a socket over which files may come.
  [[nodiscard]] awaitable<Progress> ReadWithFiles(std::span<const asio::mutable_buffer> buffers,
                                                  asio::cancellation_slot stop);

  // SleepUntil() ends when so many bytes are there.
  void WakeAt(int bytes);

  Socket socket_;
  const size_t receive_buffer_;         // Bytes that it surely holds; 0 when not over TCP.
  bool drained_ = false;                // The last read took all there was.
  bool full_ = false;                   // The last write took all the room there was.
  std::shared_ptr<FilePassing> files_;  // Null when none are passed.
};

}  // namespace simurgh::rpc
