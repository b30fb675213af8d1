#pragma once

#include <cstdint>
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
};

// A message whose payload is on its way into its places, at once or in chunks.
class Landing {
 public:
  // segments: one for each of the frame's lengths, of that length.
  Landing(IncomingFrame frame, std::vector<IncomingSegment> segments)
      : frame_(std::move(frame)),
        segments_(std::move(segments)),
        places_(SpansOf(segments_)),
        left_(frame_.header.payload_length) {}

  const FrameHeader& header() const { return frame_.header; }
  // Bytes of the payload that have not arrived.
  uint64_t left() const { return left_; }

  // Nothing is written to the places any more: Connection::Abandon().
  bool abandoned() const { return abandoned_; }

  // Requires left() == 0.
  IncomingMessage TakeMessage() {
    return {.metadata = std::move(frame_.metadata), .segments = std::move(segments_)};
  }

 private:
  friend class Connection;

  static Places::Spans SpansOf(const std::vector<IncomingSegment>& segments) {
    Places::Spans spans;
    for (const IncomingSegment& segment : segments) spans.push_back(segment.bytes);
    return spans;
  }

  IncomingFrame frame_;
  std::vector<IncomingSegment> segments_;
  Places places_;
  uint64_t left_;
  bool abandoned_ = false;
};

}  // namespace simurgh::rpc
