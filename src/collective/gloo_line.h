#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "simurgh/base/aligned_buffer.h"

namespace gloo::transport {
class Context;
class UnboundBuffer;
}  // namespace gloo::transport

namespace simurgh {

// A sequence of messages to and from one rank on one channel.
//
// Gloo sends a message only after the receiver has posted a buffer. To avoid that wait, each end
// posts the buffer of the next message, of the same size, while it receives one. Both ends can
// compute the posted sizes from the messages so far. Before a larger message the sender sends a
// one-byte filler, which uses up the buffer that is too small.
//
// Per message: Announce, Grow if TooSmall, Start, wait for receiving() and for what was sent,
// Finish. Empty messages are not sent. The caller keeps each Sending and its bytes until it has
// waited for them.
//
// Errors: all but Finish throw Gloo's exceptions.
// Threads: one owner. Lifetime: the context outlives this.
class GlooLine {
 public:
  using Buffer = gloo::transport::UnboundBuffer;
  using Sending = std::unique_ptr<Buffer>;  // Null: nothing was sent.

  GlooLine(gloo::transport::Context& context, uint32_t peer, uint64_t slot);
  ~GlooLine();

  // Sends a filler if the peer's buffer is smaller than the next message's `bytes`.
  Sending Announce(size_t bytes);
  // The buffer that receives a filler before a message of `bytes`; null if the message fits.
  Buffer* TooSmall(size_t bytes) const;
  // Posts a larger buffer. Requires that the filler was received.
  void Grow(size_t bytes);
  // Sends a message and posts the buffer for the message after the expected one.
  Sending Start(std::span<const std::byte> outgoing, size_t expected);
  // Null if no message is expected.
  Buffer* receiving() const { return expected_ == 0 ? nullptr : posted_[next_in_].buffer.get(); }
  // Returns the received message. Lifetime: until the next Start.
  std::span<const std::byte> Finish();

 private:
  struct Posted {
    AlignedBuffer memory;
    std::unique_ptr<Buffer> buffer;
  };

  Posted NewPosted(size_t bytes);
  Sending Send(std::span<const std::byte> bytes);

  gloo::transport::Context& context_;
  const int peer_;
  const uint64_t slot_;
  std::array<Posted, 2> posted_;       // Used alternately.
  std::array<size_t, 2> peer_posted_;  // Bytes of the peer's buffers.
  size_t next_in_ = 0;
  size_t next_out_ = 0;
  size_t expected_ = 0;
};

}  // namespace simurgh
