#include "rpc/exchange.h"

#include <exception>

#include "absl/strings/str_cat.h"

#include "rpc/control.h"

namespace simurgh::rpc {

StatusOr<Placed> PlaceSegments(const Placement& placement, const IncomingFrame& frame) {
  StatusOr<Placed> placed;
  try {
    placed = placement(frame.metadata, frame.lengths);
  } catch (...) {
    return StatusOfException(std::current_exception());
  }
  if (!placed.ok()) return placed;
  const std::vector<IncomingSegment>& destinations = placed->destinations;
  if (destinations.size() != frame.lengths.size()) {
    return absl::InternalError(absl::StrCat("the placement returned ", destinations.size(),
                                            " destinations for ", frame.lengths.size(),
                                            " segments"));
  }
  for (size_t i = 0; i < destinations.size(); ++i) {
    if (destinations[i].allocate) continue;
    const size_t room = destinations[i].bytes.size();
    if (room == frame.lengths[i]) continue;
    return absl::InternalError(absl::StrCat("the placement returned ", room, " bytes for segment ",
                                            i, " of ", frame.lengths[i], " bytes"));
  }
  return placed;
}

uint64_t FrameBytes(const OutgoingMessage& message) {
  return kHeaderBytes + message.segments.size() * sizeof(uint64_t) + BytesOf(message);
}

Status CheckFits(const OutgoingMessage& message, const FrameLimits& limits) {
  const auto check = [](const char* what, uint64_t size, const char* limit, uint64_t max) {
    if (size <= max) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, size, "; the receiver's ", limit, " is ", max));
  };
  SIMURGH_RETURN_IF_ERROR(check("segments of the message: ", message.segments.size(),
                                "max_segments", limits.max_segments));
  SIMURGH_RETURN_IF_ERROR(check("bytes of the metadata: ", message.metadata.bytes.size(),
                                "max_metadata_bytes", limits.max_metadata_bytes));
  return check("bytes of the frame: ", FrameBytes(message), "max_frame_bytes",
               limits.max_frame_bytes);
}

OutgoingFrame ErrorFrame(uint64_t request_id, const Status& error) {
  return {.header = {.kind = FrameKind::kError,
                     .request_id = request_id,
                     .code = static_cast<uint16_t>(error.code())},
          .message = {.metadata = EncodeError(error)}};
}

}  // namespace simurgh::rpc
