#include "rpc/message.h"

#include <flatbuffers/flatbuffers.h>

#include "absl/strings/str_cat.h"

namespace simurgh::rpc {

uint64_t BytesOf(const OutgoingMessage& message) {
  uint64_t bytes = message.metadata.bytes.size();
  for (const OutgoingSegment& segment : message.segments) bytes += segment.bytes.size();
  return bytes;
}

uint64_t BytesOf(const IncomingMessage& message) {
  uint64_t bytes = message.metadata.size();
  for (const ReceivedSegment& segment : message.segments) bytes += segment.bytes.size();
  return bytes;
}

Placement AllocateAll(size_t max_segments) {
  return [max_segments](std::span<const std::byte> /*metadata*/,
                        std::span<const uint64_t> lengths) -> StatusOr<Placed> {
    if (lengths.size() <= max_segments) {
      return std::vector<IncomingSegment>(lengths.size(), IncomingSegment::kAllocate);
    }
    return absl::InvalidArgumentError(absl::StrCat("the message has ", lengths.size(),
                                                   " segments, expected at most ", max_segments));
  };
}

OutgoingSegment TakeMetadata(flatbuffers::FlatBufferBuilder& builder) {
  auto buffer = std::make_shared<const flatbuffers::DetachedBuffer>(builder.Release());
  return {.bytes = std::as_bytes(std::span(buffer->data(), buffer->size())), .owner = buffer};
}

}  // namespace simurgh::rpc
