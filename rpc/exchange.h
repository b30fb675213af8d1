#pragma once

// What both ends of a call check.

#include <cstdint>
#include <vector>

#include "rpc/connection.h"
#include "rpc/message.h"

namespace simurgh::rpc {

// Where the segments of a frame go, or why they cannot.
// Errors: the placement's own; INTERNAL when it throws or its places do not have the lengths asked
// for.
StatusOr<std::vector<IncomingSegment>> Place(const Placement& placement,
                                             const IncomingFrame& frame);

// Of the frame that carries the message.
uint64_t FrameBytes(const OutgoingMessage& message);

// Whether a receiver with these limits accepts the message.
// Errors: INVALID_ARGUMENT, naming the limit.
Status CheckFits(const OutgoingMessage& message, const FrameLimits& limits);

// An ERROR that answers a request.
OutgoingFrame ErrorFrame(uint64_t request_id, const Status& error);

}  // namespace simurgh::rpc
