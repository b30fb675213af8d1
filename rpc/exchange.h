#pragma once

// Shared by both ends of a call.

#include <cstdint>
#include <vector>

#include "rpc/connection.h"
#include "rpc/message.h"

namespace simurgh::rpc {

// Calls the placement for a frame.
// Errors: the placement's; INTERNAL when it throws or returns destinations of other lengths.
StatusOr<Placed> PlaceSegments(const Placement& placement, const IncomingFrame& frame);

// The length of the frame with this message.
uint64_t FrameBytes(const OutgoingMessage& message);

// Checks a message against its receiver's limits.
// Errors: INVALID_ARGUMENT, naming the limit.
Status CheckFits(const OutgoingMessage& message, const FrameLimits& limits);

// An ERROR that answers a request.
OutgoingFrame ErrorFrame(uint64_t request_id, const Status& error);

}  // namespace simurgh::rpc
