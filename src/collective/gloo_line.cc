#include "collective/gloo_line.h"

#include <algorithm>

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

namespace simurgh {
namespace {

constexpr size_t kFirstBytes = 64;  // Enough for the messages of every step.
constexpr std::byte kFiller{};

}  // namespace

GlooLine::GlooLine(gloo::transport::Context& context, uint32_t peer, uint64_t slot)
    : context_(context), peer_(static_cast<int>(peer)), slot_(slot) {
  peer_posted_.fill(kFirstBytes);
  for (Posted& posted : posted_) posted = NewPosted(kFirstBytes);
  posted_[next_in_].buffer->recv(peer_, slot_);
}

GlooLine::~GlooLine() = default;

GlooLine::Posted GlooLine::NewPosted(size_t bytes) {
  Posted posted{.memory = AlignedBuffer(bytes), .buffer = nullptr};
  posted.buffer = context_.createUnboundBuffer(posted.memory.data(), bytes);
  return posted;
}

GlooLine::Sending GlooLine::Send(std::span<const std::byte> bytes) {
  Sending sending =
      context_.createUnboundBuffer(const_cast<std::byte*>(bytes.data()), bytes.size());
  sending->send(peer_, slot_);
  return sending;
}

GlooLine::Sending GlooLine::Announce(size_t bytes) {
  if (bytes <= peer_posted_[next_out_]) return nullptr;
  peer_posted_[next_out_] = bytes;
  return Send(std::span(&kFiller, 1));
}

GlooLine::Buffer* GlooLine::TooSmall(size_t bytes) const {
  const Posted& posted = posted_[next_in_];
  return bytes <= posted.memory.size() ? nullptr : posted.buffer.get();
}

void GlooLine::Grow(size_t bytes) {
  Posted& posted = posted_[next_in_];
  posted = NewPosted(bytes);
  posted.buffer->recv(peer_, slot_);
}

GlooLine::Sending GlooLine::Start(std::span<const std::byte> outgoing, size_t expected) {
  expected_ = expected;
  if (expected > 0) {
    Posted& next = posted_[1 - next_in_];
    if (next.memory.size() < expected) next = NewPosted(expected);
    next.buffer->recv(peer_, slot_);
  }
  if (outgoing.empty()) return nullptr;
  next_out_ = 1 - next_out_;
  peer_posted_[next_out_] = std::max(peer_posted_[next_out_], outgoing.size());
  return Send(outgoing);
}

std::span<const std::byte> GlooLine::Finish() {
  if (expected_ == 0) return {};
  const std::span<const std::byte> message = posted_[next_in_].memory.bytes().first(expected_);
  next_in_ = 1 - next_in_;
  return message;
}

}  // namespace simurgh
