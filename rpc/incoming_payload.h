#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

#include "rpc/buffer.h"
#include "rpc/frame.h"
#include "rpc/message.h"

namespace simurgh::rpc {

// A frame without its payload, as it arrived.
struct IncomingFrame {
  FrameHeader header;
  absl::InlinedVector<uint64_t, 2> lengths;  // Of its segments.
  std::vector<std::byte> metadata;
  // By segment, those that lie in the peer's memory; the others have no owner. Empty for none.
  std::vector<ReceivedSegment> lent;

  bool is_lent(size_t segment) const { return !lent.empty() && lent[segment].owner != nullptr; }

  // Metadata and all segments.
  uint64_t message_bytes() const {
    return std::accumulate(lengths.begin(), lengths.end(), uint64_t{metadata.size()});
  }
  // Of the frame, were all segments in it.
  uint64_t bytes() const {
    return kHeaderBytes + lengths.size() * sizeof(uint64_t) + message_bytes();
  }
};

// A message whose payload is on its way into its places, at once or in chunks.
class IncomingPayload {
 public:
  // places: one for each of the frame's lengths, of that length or anywhere.
  IncomingPayload(IncomingFrame&& frame, std::vector<IncomingSegment>&& places);

  const FrameHeader& header() const { return frame_.header; }
  // Bytes of the payload that have not arrived.
  uint64_t left() const { return left_; }

  // Requires left() == 0.
  IncomingMessage TakeMessage() {
    return {.metadata = std::move(frame_.metadata), .segments = std::move(segments_)};
  }

 private:
  friend class Connection;

  IncomingFrame frame_;
  std::vector<ReceivedSegment> segments_;
  Destinations places_;  // Of the segments that are not lent.
  uint64_t left_;
  uint64_t copied_bytes_ = 0;  // Out of the peer's memory, and not counted yet.
  bool abandoned_ = false;
};

}  // namespace simurgh::rpc
