#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <flatbuffers/flatbuffer_builder.h>

#include "base/status.h"

namespace simurgh::rpc {

// Bytes to send without a copy. The owner keeps them alive and unchanged until they are written.
// Lifetime without an owner: bytes of a request until Client::Call returns (a call that ends while
// they are being written closes the connection); bytes of a response until Server::Drain returns.
struct OutgoingSegment {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = {};
};

// Memory for a segment that is sent without a copy. 64-byte aligned.
struct SegmentBuffer {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner = {};

  OutgoingSegment segment() const { return {.bytes = bytes, .owner = owner}; }
};

// Received bytes, valid until the owner is destroyed.
struct ReceivedSegment {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = {};
};

// The destination of received bytes. The owner keeps it alive. Lifetime without an owner: until
// Client::Call returns for a response, as long as the server for a request.
struct IncomingSegment {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner = {};
  bool allocate = false;

  // Lets the transport choose a destination, 64-byte aligned, without a copy: bytes in shared
  // memory stay there, others are read into a pooled buffer. A malicious sender can change shared
  // memory at any time: code that relies on checked values must name a destination.
  static const IncomingSegment kAllocate;
};
inline const IncomingSegment IncomingSegment::kAllocate{.allocate = true};

// A request or response to send: FlatBuffers metadata and payload segments.
struct OutgoingMessage {
  OutgoingSegment metadata;
  std::vector<OutgoingSegment> segments = {};
};

// A received request or response. The method verifies the metadata.
struct IncomingMessage {
  std::vector<std::byte> metadata;  // At least 8-byte aligned.
  std::vector<ReceivedSegment> segments;
};

// Bytes of metadata and segments.
uint64_t BytesOf(const OutgoingMessage& message);
uint64_t BytesOf(const IncomingMessage& message);

// The result of a placement.
struct Placed {
  Placed(std::vector<IncomingSegment> segments = {},  // NOLINT(google-explicit-constructor)
         std::shared_ptr<void> made = {})
      : destinations(std::move(segments)), context(std::move(made)) {}

  std::vector<IncomingSegment> destinations;  // One for each segment, of its length or kAllocate.
  std::shared_ptr<void> context;  // Passed to the handler of a request as Request::context.
};

// Places a message. Called when the metadata has arrived, before the payload is read.
// Errors: refuse the message. The payload is skipped; a server answers with the error.
using Placement = std::function<StatusOr<Placed>(std::span<const std::byte> metadata,
                                                 std::span<const uint64_t> segment_lengths)>;

// Accepts up to `max_segments` segments of any length into kAllocate.
Placement AllocateAll(size_t max_segments);
inline Placement NoSegments() { return AllocateAll(0); }

// Releases the finished buffer of the builder.
OutgoingSegment TakeMetadata(flatbuffers::FlatBufferBuilder& builder);

// Sent by each end when a connection opens.
struct Hello {
  // Names are printable ASCII of at most 255 bytes.
  std::string cluster;       // Equal at both ends.
  std::string role;          // "embedding-ps", ...
  uint32_t index = 0;        // Index within the role.
  uint64_t run = 0;          // The trainer's run; else 0.
  uint64_t incarnation = 0;  // Differs for each start of the process.
  // Settings that must be equal at both ends, see SettingsDifference; at most 256 KiB.
  std::string configuration;
  uint64_t map_version = 0;  // Version of the bucket map.
};

}  // namespace simurgh::rpc
