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

// What this rank and another one say to one another on a channel, message after message.
//
// Gloo sends a message when the receiver has told that there is room for it. So that no message
// waits for that, room for the next one is given while the present one is on its way, and as large.
// Both ends see the sizes of all messages, and so know of the same room; a message that needs more
// has a filler sent before it, which uses up the room that is too small.
//
// A message is Announce, Grow where TooSmall, Start, a wait for what is receiving and for what was
// sent, Finish; empty ones are none. All but Finish throw what Gloo throws. What they send stays
// with the caller, together with the bytes: to be waited for, or given up.
//
// Threads: one owner. Lifetime: the context outlives this.
class GlooLine {
 public:
  using Buffer = gloo::transport::UnboundBuffer;
  using Sending = std::unique_ptr<Buffer>;  // Null where nothing had to be sent.

  GlooLine(gloo::transport::Context& context, uint32_t peer, uint64_t slot);
  ~GlooLine();

  // So many bytes will be sent; sends a filler before them if there is too little room.
  Sending Announce(size_t bytes);
  // Room in which a filler comes before so many bytes; null where they fit.
  Buffer* TooSmall(size_t bytes) const;
  // When the filler is here.
  void Grow(size_t bytes);
  // Sends, and gives room for the message after the one that is expected.
  Sending Start(std::span<const std::byte> outgoing, size_t expected);
  // Null where nothing is expected.
  Buffer* receiving() const { return expected_ == 0 ? nullptr : rooms_[next_in_].buffer.get(); }
  // What has been received. It stays until the next Start.
  std::span<const std::byte> Finish();

 private:
  struct Room {
    AlignedBuffer memory;
    std::unique_ptr<Buffer> buffer;
  };

  Room NewRoom(size_t bytes);
  Sending Send(std::span<const std::byte> bytes);

  gloo::transport::Context& context_;
  const int peer_;
  const uint64_t slot_;
  // Messages use two rooms in turn: of the one that came last, and of the next.
  std::array<Room, 2> rooms_;
  std::array<size_t, 2> their_rooms_;  // Bytes of those at the other end.
  size_t next_in_ = 0;
  size_t next_out_ = 0;
  size_t expected_ = 0;
};

}  // namespace simurgh
