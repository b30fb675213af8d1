#pragma once

// Methods of nn-workers, called by loaders. The tables are in feed.fbs. The number and meaning of a
// method never change.

#include <cstddef>
#include <cstdint>

#include "rpc/method.h"
#include "services/api/feed_generated.h"

namespace simurgh::api {

// Called before the first batch, and again after a loader's restart.
using OpenFeed =
    rpc::MethodOf<rpc::MessageOf<wire::OpenFeedRequest>, rpc::MessageOf<wire::OpenFeedResponse>>;
// The head has all settings of the input.
inline constexpr OpenFeed kOpenFeed{
    .number = 0x0301, .name = "open_feed", .max_head_bytes = 16 << 20};

// plain_ids and codes: an EncodedBatch. dense: (B, dense width). labels: see DenseBatch::labels.
using FeedBatch =
    rpc::MethodOf<rpc::MessageOf<wire::FeedBatchRequest, rpc::Segment<"plain_ids", uint64_t>,
                                 rpc::Segment<"codes", std::byte>, rpc::Segment<"dense", float>,
                                 rpc::Segment<"labels", float>>,
                  rpc::MessageOf<wire::FeedBatchResponse>>;
// The head has the offsets of all partitions of a loader.
inline constexpr FeedBatch kFeedBatch{
    .number = 0x0302, .name = "feed_batch", .max_head_bytes = 1 << 20};

using EndFeed = rpc::MethodOf<rpc::MessageOf<wire::EndFeedRequest>, rpc::MessageOf<rpc::NoTable>>;
inline constexpr EndFeed kEndFeed{.number = 0x0303, .name = "end_feed"};

}  // namespace simurgh::api
