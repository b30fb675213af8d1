#include "rpc/method.h"

#include <string>

#include <flatbuffers/flatbuffers.h>

#include "absl/strings/str_cat.h"

#include "rpc/message.h"

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

namespace simurgh::rpc::internal {

Status CheckSegments(std::string_view what, std::span<const std::string_view> names,
                     std::span<const size_t> element_bytes, std::span<const uint64_t> lengths) {
  if (lengths.size() != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(what), ": ", lengths.size(),
                                                   " segments, expected ", names.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (lengths[i] % element_bytes[i] == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(what), ": segment '", std::string(names[i]), "' has ", lengths[i],
                     " bytes, which is not a multiple of its element size ", element_bytes[i]));
  }
  return absl::OkStatus();
}

Status CheckAlignment(std::string_view what, std::span<const std::string_view> names,
                      std::span<const size_t> alignments,
                      std::span<const ReceivedSegment> segments) {
  for (size_t i = 0; i < alignments.size(); ++i) {
    const auto address = reinterpret_cast<uintptr_t>(segments[i].bytes.data());
    if (address % alignments[i] == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(std::string(what), ": segment '",
                                                   std::string(names[i]), "' is not aligned to ",
                                                   alignments[i], " bytes by its sender"));
  }
  return absl::OkStatus();
}

Status MalformedResponse(const Status& error) {
  return absl::InternalError(absl::StrCat("malformed response: ", error.message()));
}

Status UnexpectedCount(std::string_view method, std::string_view segment, uint64_t count,
                       uint64_t expected) {
  return MalformedResponse(absl::InvalidArgumentError(
      absl::StrCat(std::string(method), ": segment '", std::string(segment), "' has ", count,
                   " elements, expected ", expected)));
}

}  // namespace simurgh::rpc::internal
