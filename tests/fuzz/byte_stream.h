#pragma once

// Connections that consist of the bytes of an input.

#include <cstdint>

#include "base/random.h"
#include "rpc/frame.h"
#include "rpc/stream.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {

// First byte of a record of an input.
inline constexpr uint8_t kAsItIs = 0;
inline constexpr uint8_t kSealed = 1;  // Its first bytes become a header with magic and checksum.
inline constexpr uint8_t kFitted = 2;  // And the frame's lengths become those of the record.

// The bytes of an input's records: a byte of kind and a part each.
Bytes ReadRecords(Input input);

// Gives bytes in pieces of any size, then ends; takes all that is written to it.
class ByteStream : public rpc::Stream {
 public:
  // Gives `greeting`, and `bytes` when it has been released.
  ByteStream(rpc::asio::any_io_executor executor, const Bytes& greeting, const Bytes& bytes);

  void Release() { end_ = bytes_.size(); }

  Progress TryRead(std::span<const rpc::asio::mutable_buffer> buffers) override;
  [[nodiscard]] rpc::asio::awaitable<Progress> Read(
      std::span<const rpc::asio::mutable_buffer> buffers,
      rpc::asio::cancellation_slot stop) override;
  Progress TryWrite(std::span<const rpc::asio::const_buffer> buffers) override;
  void WhenWritable(std::function<void(const ErrorCode&)> ready) override;
  void Close() override { closed_ = true; }
  std::string peer() const override { return "fuzz"; }
  rpc::asio::any_io_executor executor() override { return executor_; }

 private:
  Progress Give(std::span<const rpc::asio::mutable_buffer> buffers);

  const rpc::asio::any_io_executor executor_;
  Bytes bytes_;
  Random random_;
  size_t next_ = 0;
  size_t end_;  // End of the readable bytes.
  bool closed_ = false;
};

}  // namespace simurgh::fuzz
