#include "collective/gloo_line.h"

#include <algorithm>

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

namespace simurgh {
namespace {

constexpr size_t kFirstRoom = 64;  // Bytes; of what ranks say at every step.
constexpr std::byte kFiller{};

}  // namespace

GlooLine::GlooLine(gloo::transport::Context& context, uint32_t peer, uint64_t slot)
    : context_(context), peer_(static_cast<int>(peer)), slot_(slot) {
  their_rooms_.fill(kFirstRoom);
  for (Room& room : rooms_) room = NewRoom(kFirstRoom);
  rooms_[next_in_].buffer->recv(peer_, slot_);
}

GlooLine::~GlooLine() = default;

GlooLine::Room GlooLine::NewRoom(size_t bytes) {
  Room room{.memory = AlignedBuffer(bytes), .buffer = nullptr};
  room.buffer = context_.createUnboundBuffer(room.memory.data(), bytes);
  return room;
}

GlooLine::Sending GlooLine::Send(std::span<const std::byte> bytes) {
  Sending sending =
      context_.createUnboundBuffer(const_cast<std::byte*>(bytes.data()), bytes.size());
  sending->send(peer_, slot_);
  return sending;
}

GlooLine::Sending GlooLine::Announce(size_t bytes) {
  if (bytes <= their_rooms_[next_out_]) return nullptr;
  their_rooms_[next_out_] = bytes;
  return Send(std::span(&kFiller, 1));
}

GlooLine::Buffer* GlooLine::TooSmall(size_t bytes) const {
  const Room& room = rooms_[next_in_];
  return bytes <= room.memory.size() ? nullptr : room.buffer.get();
}

void GlooLine::Grow(size_t bytes) {
  Room& room = rooms_[next_in_];
  room = NewRoom(bytes);
  room.buffer->recv(peer_, slot_);
}

GlooLine::Sending GlooLine::Start(std::span<const std::byte> outgoing, size_t expected) {
  expected_ = expected;
  if (expected > 0) {
    Room& next = rooms_[1 - next_in_];
    if (next.memory.size() < expected) next = NewRoom(expected);
    next.buffer->recv(peer_, slot_);
  }
  if (outgoing.empty()) return nullptr;
  next_out_ = 1 - next_out_;
  their_rooms_[next_out_] = std::max(their_rooms_[next_out_], outgoing.size());
  return Send(outgoing);
}

std::span<const std::byte> GlooLine::Finish() {
  if (expected_ == 0) return {};
  const std::span<const std::byte> message = rooms_[next_in_].memory.bytes().first(expected_);
  next_in_ = 1 - next_in_;
  return message;
}

}  // namespace simurgh
