#pragma once

#include <memory>

#include "rpc/file_passing.h"
#include "rpc/stream.h"
#include "rpc/transport.h"

namespace simurgh::rpc {

// Bytes over a TCP or Unix socket, between the kernel and where they lie.
class SocketStream : public Stream {
 public:
  explicit SocketStream(Socket socket, std::shared_ptr<FilePassing> files = nullptr)
      : socket_(std::move(socket)), files_(std::move(files)) {}

  Progress TryRead(std::span<const asio::mutable_buffer> buffers) override;
  [[nodiscard]] awaitable<Progress> Read(std::span<const asio::mutable_buffer> buffers,
                                         asio::cancellation_slot stop) override;
  Progress TryWrite(std::span<const asio::const_buffer> buffers) override;
  void WhenWritable(std::function<void(const ErrorCode&)> ready) override;
  void Close() override;
  std::string peer() const override { return PeerName(socket_); }
  asio::any_io_executor executor() override { return socket_.get_executor(); }

 private:
  Socket socket_;
  bool drained_ = false;                // The last read took all there was.
  std::shared_ptr<FilePassing> files_;  // Null when none are passed.
};

}  // namespace simurgh::rpc
