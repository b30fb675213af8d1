#include "rpc/incoming_payload.h"

#include "rpc/copy.h"
#include "rpc/segment_pool.h"

namespace simurgh::rpc {

IncomingPayload::IncomingPayload(IncomingFrame&& frame, std::vector<IncomingSegment>&& places)
    : frame_(std::move(frame)), places_({}), left_(frame_.header.payload_length) {
  segments_.reserve(places.size());
  Destinations::Spans spans;
  for (size_t i = 0; i < places.size(); ++i) {
    IncomingSegment& place = places[i];
    if (frame_.is_lent(i)) {
      ReceivedSegment& lent = frame_.lent[i];
      if (place.allocate) {
        segments_.push_back(std::move(lent));
        continue;
      }
      CopyPayload(place.bytes, lent.bytes);
      copied_bytes_ += lent.bytes.size();
      lent.owner.reset();
    } else {
      if (place.allocate) {
        SegmentBuffer buffer = PooledBuffer(frame_.lengths[i]);
        place = {.bytes = buffer.bytes, .owner = std::move(buffer.owner)};
      }
      if (!place.bytes.empty()) spans.push_back(place.bytes);
    }
    segments_.push_back({.bytes = place.bytes, .owner = std::move(place.owner)});
  }
  places_ = Destinations(std::move(spans));
}

}  // namespace simurgh::rpc
