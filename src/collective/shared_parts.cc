#include "collective/shared_parts.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// Bytes; larger than any bucket of gradients.
constexpr size_t kHalf = size_t{1} << 34;
// Interval of checks for failures of the mesh during a wait for a pipe.
constexpr std::chrono::milliseconds kCheckInterval{50};

using Offset = uint64_t;  // Bytes from the start of a region.

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

size_t PipeOf(Channel channel) { return static_cast<size_t>(channel); }

}  // namespace

SharedParts::SharedParts(GlooMesh& mesh, bool shares)
    : mesh_(mesh),
      own_(shares ? SharedRegion::Create(2 * kHalf) : nullptr),
      neighbours_(mesh.ranks()) {}

SharedParts::~SharedParts() { mesh_.OnFailure(nullptr); }

Status SharedParts::Meet() {
  std::vector<Offer> offers(mesh_.ranks());
  Parts parts(mesh_.ranks(), {}, sizeof(Offer));
  for (uint32_t peer = 0; peer < mesh_.ranks(); ++peer) {
    if (peer != mesh_.rank() && own_ != nullptr) {
      neighbours_[peer] = std::make_unique<Neighbour>();
      offers[peer].memory = own_->key();
      for (size_t i = 0; i < kChannels; ++i) {
        offers[peer].pipes[i] = neighbours_[peer]->from[i].file_for_writer();
      }
    }
    parts.outgoing[peer] = BytesOf(offers[peer]);
  }
  SIMURGH_RETURN_IF_ERROR(mesh_.Exchange(Channel::kStep, parts));
  // Two ranks are neighbours if each can open the other's offer.
  std::vector<std::byte> opened(mesh_.ranks());
  Parts answers(mesh_.ranks(), {}, 1);
  for (uint32_t peer = 0; peer < mesh_.ranks(); ++peer) {
    if (neighbours_[peer] != nullptr) {
      Offer offer;
      std::memcpy(&offer, parts.incoming[peer].data(), sizeof(offer));
      opened[peer] = std::byte{neighbours_[peer]->Open(offer)};
    }
    answers.outgoing[peer] = BytesOf(opened[peer]);
  }
  SIMURGH_RETURN_IF_ERROR(mesh_.Exchange(Channel::kStep, answers));
  for (uint32_t peer = 0; peer < mesh_.ranks(); ++peer) {
    if (neighbours_[peer] == nullptr) continue;
    if (opened[peer] == std::byte{} || answers.incoming[peer][0] == std::byte{}) {
      neighbours_[peer].reset();
    } else {
      for (PipeReader& pipe : neighbours_[peer]->from) pipe.Opened();
    }
  }
  mesh_.OnFailure([this] {
    for (const auto& neighbour : neighbours_) {
      if (neighbour == nullptr) continue;
      for (const PipeWriter& pipe : neighbour->to) pipe.HangUp();
    }
  });
  return absl::OkStatus();
}

bool SharedParts::Neighbour::Open(const Offer& offer) {
  memory = SharedRegion::Open(offer.memory, 2 * kHalf);
  if (memory == nullptr) return false;
  for (size_t i = 0; i < kChannels; ++i) {
    if (!to[i].Open(offer.memory.process, offer.pipes[i])) return false;
  }
  return true;
}

std::span<std::byte> SharedParts::Outgoing(Channel channel, size_t bytes) {
  if (own_ == nullptr || channel != Channel::kGradients) {
    std::vector<std::byte>& memory = unshared_[static_cast<size_t>(channel)];
    memory.resize(bytes);
    return memory;
  }
  if (bytes == 0) return {};
  SIMURGH_CHECK_LE(bytes, kHalf);
  const size_t half = std::exchange(next_half_, 1 - next_half_);
  return own_->bytes().subspan(half * kHalf, bytes);
}

bool SharedParts::UsesPipe(uint32_t peer, Channel channel, size_t bytes) const {
  if (neighbours_[peer] == nullptr || bytes == 0) return false;
  return channel == Channel::kGradients || bytes <= PipeReader::kMaxBytes;
}

Status SharedParts::Exchange(Channel channel, Parts& parts, absl::FunctionRef<void()> meanwhile) {
  Parts others = parts;  // Messages through the mesh.
  for (uint32_t peer = 0; peer < mesh_.ranks(); ++peer) {
    if (UsesPipe(peer, channel, parts.outgoing[peer].size())) {
      SIMURGH_RETURN_IF_ERROR(Send(peer, channel, parts.outgoing[peer]));
      others.outgoing[peer] = {};
    }
    if (UsesPipe(peer, channel, parts.expected[peer])) others.expected[peer] = 0;
  }
  SIMURGH_RETURN_IF_ERROR(mesh_.Exchange(channel, others, meanwhile));
  for (uint32_t peer = 0; peer < mesh_.ranks(); ++peer) {
    parts.incoming[peer] = others.incoming[peer];
    if (!UsesPipe(peer, channel, parts.expected[peer])) continue;
    SIMURGH_ASSIGN_OR_RETURN(parts.incoming[peer], Receive(peer, channel, parts.expected[peer]));
  }
  return absl::OkStatus();
}

Status SharedParts::Send(uint32_t peer, Channel channel, std::span<const std::byte> part) {
  const PipeWriter& pipe = neighbours_[peer]->to[PipeOf(channel)];
  const Offset offset =
      channel == Channel::kGradients ? static_cast<Offset>(part.data() - own_->bytes().data()) : 0;
  if (pipe.Write(channel == Channel::kGradients ? BytesOf(offset) : part)) return absl::OkStatus();
  return mesh_.FailAsGone(peer, "its pipe is full or closed");
}

StatusOr<std::span<const std::byte>> SharedParts::Receive(uint32_t peer, Channel channel,
                                                          size_t bytes) {
  PipeReader& pipe = neighbours_[peer]->from[PipeOf(channel)];
  std::vector<std::byte>& received = neighbours_[peer]->received[PipeOf(channel)];
  received.resize(channel == Channel::kGradients ? sizeof(Offset) : bytes);
  const auto deadline = mesh_.DeadlineOf(channel);
  while (true) {
    switch (pipe.Read(received, kCheckInterval)) {
      case PipeReader::Wait::kMessage:
        return channel == Channel::kGradients ? PartAt(peer, received, bytes) : received;
      case PipeReader::Wait::kGone:
        return mesh_.FailAsGone(peer, "it closed its pipe");
      case PipeReader::Wait::kNothing:
        SIMURGH_RETURN_IF_ERROR(mesh_.Check(channel));
        if (std::chrono::steady_clock::now() >= deadline) return mesh_.FailAsSilent(peer);
    }
  }
}

StatusOr<std::span<const std::byte>> SharedParts::PartAt(uint32_t peer,
                                                         std::span<const std::byte> offset,
                                                         size_t bytes) const {
  Offset first = 0;
  std::memcpy(&first, offset.data(), sizeof(first));
  const std::span<const std::byte> memory = neighbours_[peer]->memory->bytes();
  if (first <= memory.size() && bytes <= memory.size() - first) return memory.subspan(first, bytes);
  return mesh_.FailAsGone(peer, "it sent an offset outside of its shared memory");
}

}  // namespace simurgh
