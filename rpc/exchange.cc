#include "rpc/exchange.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

#include "rpc/control.h"
#include "rpc/error.h"

namespace simurgh::rpc {

StatusOr<std::vector<IncomingSegment>> Place(const Placement& placement,
                                             const IncomingFrame& frame) {
  StatusOr<std::vector<IncomingSegment>> places;
  try {
    places = placement(frame.metadata, frame.lengths);
  } catch (...) {
    return StatusOfException(std::current_exception());
  }
  if (!places.ok()) return places;
  if (places->size() != frame.lengths.size()) {
    return absl::InternalError(absl::StrCat("the placement gave ", places->size(), " places for ",
                                            frame.lengths.size(), " segments"));
  }
  for (size_t i = 0; i < places->size(); ++i) {
    if ((*places)[i].anywhere) continue;
    const size_t room = (*places)[i].bytes.size();
    if (room == frame.lengths[i]) continue;
    return absl::InternalError(absl::StrCat("the placement gave ", room, " bytes for segment ", i,
                                            " of ", frame.lengths[i]));
  }
  return places;
}

uint64_t FrameBytes(const OutgoingMessage& message) {
  uint64_t bytes =
      kHeaderBytes + message.segments.size() * sizeof(uint64_t) + message.metadata.bytes.size();
  for (const OutgoingSegment& segment : message.segments) bytes += segment.bytes.size();
  return bytes;
}

Status CheckFits(const OutgoingMessage& message, uint64_t max_frame_bytes) {
  if (message.segments.size() > kMaxSegments) {
    return absl::InvalidArgumentError(absl::StrCat("the message has ", message.segments.size(),
                                                   " segments, at most ", kMaxSegments));
  }
  const size_t metadata = message.metadata.bytes.size();
  if (metadata > FrameLimits().max_metadata_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the metadata has ", metadata, " bytes, at most ", FrameLimits().max_metadata_bytes));
  }
  const uint64_t bytes = FrameBytes(message);
  if (bytes > max_frame_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the frame has ", bytes, " bytes, the receiver's max_frame_bytes is ", max_frame_bytes));
  }
  return absl::OkStatus();
}

OutgoingFrame ErrorFrame(uint64_t request_id, const Status& error, uint16_t flags) {
  OutgoingFrame frame;
  frame.header.kind = FrameKind::kError;
  frame.header.flags = flags;
  frame.header.request_id = request_id;
  frame.header.code = static_cast<uint16_t>(error.code());
  frame.header.detail = DetailOf(error);
  frame.message.metadata = EncodeError(error);
  return frame;
}

}  // namespace simurgh::rpc
