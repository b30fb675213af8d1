#include "rpc/incoming_payload.h"

#include "rpc/buffer.h"

namespace simurgh::rpc {

IncomingPayload::IncomingPayload(IncomingFrame&& frame, std::vector<IncomingSegment>&& destinations)
    : frame_(std::move(frame)), destinations_({}), left_(frame_.header.payload_length) {
  segments_.reserve(destinations.size());
  ReceiveBuffers::Spans spans;
  for (size_t i = 0; i < destinations.size(); ++i) {
    IncomingSegment& destination = destinations[i];
    if (frame_.is_borrowed(i)) {
      ReceivedSegment& borrowed = frame_.borrowed[i];
      if (destination.allocate) {
        segments_.push_back(std::move(borrowed));
        continue;
      }
      CopyPayload(destination.bytes, borrowed.bytes);
      copied_bytes_ += borrowed.bytes.size();
      borrowed.owner.reset();
    } else {
      if (destination.allocate) {
        SegmentBuffer buffer = PooledBuffer(frame_.lengths[i]);
        destination = {.bytes = buffer.bytes, .owner = std::move(buffer.owner)};
      }
      if (!destination.bytes.empty()) spans.push_back(destination.bytes);
    }
    segments_.push_back({.bytes = destination.bytes, .owner = std::move(destination.owner)});
  }
  destinations_ = ReceiveBuffers(std::move(spans));
}

}  // namespace simurgh::rpc
