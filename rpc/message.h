#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace flatbuffers {
class FlatBufferBuilder;
}

namespace simurgh::rpc {

// Bytes to send from where they lie. The owner keeps them alive and unchanged until the write has
// completed. Without an owner, those of a request must live until Client::Call returns (a call
// given up half written then costs the connection), those of a response until the server has been
// drained.
struct OutgoingSegment {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = {};
};

// Memory to produce a segment in, so that sending it copies nothing. 64-byte aligned.
struct SegmentBuffer {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner = {};

  // What has been written, to send.
  OutgoingSegment segment() const { return {.bytes = bytes, .owner = owner}; }
};

// Received bytes, to read until the owner is let go.
struct ReceivedSegment {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = {};
};

// Where to put received bytes. The owner keeps the place alive. Without an owner, the place of a
// response must live until Client::Call returns, that of a request as long as the server.
struct IncomingSegment {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner = {};
  bool allocate = false;

  // Leaves the place to the transport, which copies nothing then: in shared memory the bytes stay
  // where the sender has them, else they come into a recycled buffer; 64-byte aligned.
  // While they lie in shared memory a malicious sender can still change them: who
  // checks them and relies on it afterwards must name a place.
  static const IncomingSegment kAllocate;
};
inline const IncomingSegment IncomingSegment::kAllocate{.allocate = true};

// A request or a response on its way out: FlatBuffers metadata, then payload segments.
struct OutgoingMessage {
  OutgoingSegment metadata;
  std::vector<OutgoingSegment> segments = {};
};

// A request or a response that has arrived. Metadata has not been verified: the method does that.
struct IncomingMessage {
  std::vector<std::byte> metadata;  // 8-byte aligned or better.
  std::vector<ReceivedSegment> segments;
};

// Metadata and segments.
uint64_t BytesOf(const OutgoingMessage& message);
uint64_t BytesOf(const IncomingMessage& message);

// Says where the segments of a message go, once its metadata is there and before its payload is
// read: one place for each length, of exactly that length or anywhere.
// Errors: refuse the message; the payload is read past and the error answered.
using Placement = std::function<StatusOr<std::vector<IncomingSegment>>(
    std::span<const std::byte> metadata, std::span<const uint64_t> segment_lengths)>;

// A message without metadata may be expected too: no segments allowed.
Placement NoSegments();

// Up to `max_segments` of any length, anywhere.
Placement AllocateAll(size_t max_segments);

// Takes the finished buffer out of the builder.
OutgoingSegment TakeMetadata(flatbuffers::FlatBufferBuilder& builder);

// What one end tells the other when a connection opens.
struct Hello {
  // Printable ASCII of at most 255 bytes.
  std::string cluster;              // Must be equal at both ends.
  std::string role;                 // "embedding-ps", ...
  uint32_t index = 0;               // Of its role.
  uint64_t run = 0;                 // Of a trainer; else 0.
  uint64_t incarnation = 0;         // Minted at process start: tells one life from the next.
  uint64_t configuration_hash = 0;  // Must be equal at both ends.
  uint64_t map_version = 0;         // Of the bucket map.
};

}  // namespace simurgh::rpc
