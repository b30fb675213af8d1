#pragma once

// What the control frames HELLO and ERROR carry.

#include <algorithm>
#include <cstdint>
#include <span>

#include "rpc/frame.h"
#include "rpc/message.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

inline constexpr uint16_t kProtocolMin = 1;
inline constexpr uint16_t kProtocolMax = 2;
// From this version on there are CHUNK frames, read-ahead hints and request windows.
inline constexpr uint16_t kProtocolWithChunks = 2;

// Optional parts; those that both ends have are in force. Of HELLO's `features`.
inline constexpr uint64_t kFeatureSharedMemory = 1;  // Two files come along with the HELLO.
inline constexpr uint64_t kFeatureGatheredChunks = 2;
inline constexpr uint64_t kFeaturePadding = 4;
// Those of every end of ours.
inline constexpr uint64_t kOwnFeatures = kFeatureGatheredChunks | kFeaturePadding;

// Limits of what may arrive before a peer has introduced itself.
inline constexpr FrameLimits kHelloLimits{.max_frame_bytes = 8'192, .max_metadata_bytes = 4'096};

// Payload types of a Status that stay on this machine: the first travels in the header instead, the
// others are an end's own conclusions.
inline constexpr char kDetailPayload[] = "simurgh/detail";
inline constexpr char kExecutionPayload[] = "simurgh/execution";
inline constexpr char kCutPayload[] = "simurgh/cut";

// A HELLO as it arrived.
struct PeerHello {
  Hello hello;
  uint16_t protocol_min = 0;
  uint16_t protocol_max = 0;
  uint64_t features = 0;
  FrameLimits limits;                 // Of frames towards the peer.
  uint64_t request_window_bytes = 0;  // Of unanswered requests towards the peer; 0 for no limit.

  // The version that is spoken.
  uint16_t protocol() const { return std::min(protocol_max, kProtocolMax); }
};

OutgoingSegment EncodeHello(const Hello& hello, const FrameLimits& limits,
                            uint64_t request_window_bytes = 0, uint64_t features = 0);
// Errors: DATA_LOSS.
StatusOr<PeerHello> DecodeHello(std::span<const std::byte> metadata);

// Whether the two ends may talk.
// Errors: INVALID_ARGUMENT, naming what differs.
Status CheckHello(const Hello& own, const PeerHello& peer);

// The metadata of an ERROR: message and payloads, cut to what every receiver accepts. Code and
// detail go into the header.
OutgoingSegment EncodeError(const Status& status);
// Errors: DATA_LOSS in `error`'s place when the metadata is malformed.
Status DecodeError(const FrameHeader& header, std::span<const std::byte> metadata, Status& error);

}  // namespace simurgh::rpc
