#pragma once

// The metadata of HELLO and ERROR frames.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "rpc/frame.h"
#include "rpc/message.h"

namespace simurgh::rpc {

// The version of the wire format; every change of the format changes it. Both ends must have the
// same.
inline constexpr uint16_t kProtocolVersion = 1;

// Optional features, a bit mask: in use where both HELLOs have the bit.
inline constexpr uint64_t kFeatureSharedMemory = 1;  // The HELLO passes two files.

// Every end accepts frames of this size, so that errors fit.
inline constexpr FrameLimits kLeastLimits{.max_frame_bytes = 8'192, .max_metadata_bytes = 4'096};

// Limits of frames before a peer's HELLO has been accepted; Hello::configuration must fit.
inline constexpr uint64_t kMaxConfigurationBytes = uint64_t{256} << 10;
inline constexpr FrameLimits kHelloLimits{
    .max_frame_bytes = kLeastLimits.max_frame_bytes + kMaxConfigurationBytes,
    .max_metadata_bytes = kLeastLimits.max_metadata_bytes + kMaxConfigurationBytes};

// A received HELLO.
struct PeerHello {
  Hello hello;
  uint16_t protocol = 0;
  uint64_t features = 0;
  FrameLimits limits;                 // Limits of frames to the peer.
  uint64_t request_window_bytes = 0;  // Limit of unanswered requests to the peer; 0: none.
};

OutgoingSegment EncodeHello(const Hello& hello, const FrameLimits& limits,
                            uint64_t request_window_bytes = 0, uint64_t features = 0);
// Errors: DATA_LOSS.
StatusOr<PeerHello> DecodeHello(std::span<const std::byte> metadata);

// The claims that a proof of a token covers. A server's are its cluster, then a HELLO that has its
// role and index only. A client's are those of the server, then its own HELLO.
std::string Claims(std::string_view first, std::span<const std::byte> hello);

// Checks the protocol version and the limits of frames.
// Errors: INVALID_ARGUMENT, naming the field.
Status CheckProtocol(const PeerHello& peer);
// Checks the cluster and its settings. The error has those of both ends: only for peers that may
// know them.
// Errors: INVALID_ARGUMENT, naming the first field that does not match.
Status CheckCluster(const Hello& own, const Hello& peer);

// The metadata of an ERROR: the message, truncated to what every receiver accepts. The header has
// the code. Payloads of the status stay on this machine.
OutgoingSegment EncodeError(const Status& status);
// Errors: DATA_LOSS in `error`'s destination when the metadata is malformed.
Status DecodeError(const FrameHeader& header, std::span<const std::byte> metadata, Status& error);

}  // namespace simurgh::rpc
