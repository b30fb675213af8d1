#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

#include "rpc/buffer.h"
#include "rpc/frame.h"
#include "rpc/message.h"
#include "rpc/window.h"

namespace simurgh::rpc {

// A received frame without its payload.
struct IncomingFrame {
  FrameHeader header;
  absl::InlinedVector<uint64_t, 2> lengths;  // By segment.
  std::vector<std::byte> metadata;
  // By segment; segments in the frame have no owner. Empty if none is borrowed.
  std::vector<ReceivedSegment> borrowed;
  WindowShare share;         // Of the server's memory for requests.
  WindowShare answer_share;  // Of that for answers.
  Status refusal;            // Why the head was not read; it counts as unread payload.

  bool is_borrowed(size_t segment) const {
    return !borrowed.empty() && borrowed[segment].owner != nullptr;
  }

  // Metadata and all segments.
  uint64_t message_bytes() const {
    return std::accumulate(lengths.begin(), lengths.end(), uint64_t{metadata.size()});
  }
  // The length of the frame, counting borrowed segments.
  uint64_t bytes() const {
    return kHeaderBytes + lengths.size() * sizeof(uint64_t) + message_bytes();
  }
};

// A message that arrives, at once or in chunks, and the destinations of its payload.
class IncomingPayload {
 public:
  // Requires one destination for each segment, of the same length or kAllocate.
  IncomingPayload(IncomingFrame&& frame, std::vector<IncomingSegment>&& destinations);

  const FrameHeader& header() const { return frame_.header; }
  WindowShare TakeShare() { return std::move(frame_.share); }
  // Bytes of the payload that have not been read.
  uint64_t left() const { return left_; }

  // Requires left() == 0.
  IncomingMessage TakeMessage() {
    return {.metadata = std::move(frame_.metadata), .segments = std::move(segments_)};
  }

 private:
  friend class Connection;

  IncomingFrame frame_;
  std::vector<ReceivedSegment> segments_;
  ReceiveBuffers destinations_;  // Those of segments that are not borrowed.
  uint64_t left_;
  uint64_t copied_bytes_ = 0;  // From the peer's memory, not yet reported.
  bool abandoned_ = false;     // See Connection::Abandon().
};

}  // namespace simurgh::rpc
