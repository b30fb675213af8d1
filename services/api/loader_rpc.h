#pragma once

// Methods of nn-workers, called by loaders. The tables are in loaders.fbs. The number and meaning
// of a method never change.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "config/cluster_config.h"
#include "data/batch/batch.h"
#include "data/batch/encoded_batch.h"
#include "rpc/method.h"
#include "services/api/loaders_generated.h"

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

// input: InputAgreement of the fitted configuration, or empty: see LoaderClientOptions.
rpc::Outgoing<OpenFeed::Request> EncodeOpen(uint32_t loader, uint32_t loaders, uint32_t rank,
                                            uint32_t ranks, const std::string& input);

struct FedBatch {
  EncodedBatch sparse;
  DenseBatch dense;
  ShareProgress progress = {};
  bool idle = false;
};

// Encodes a request whose segments refer to the batch's arrays.
// session: OpenFeedResponse::session for a stream, else 0.
rpc::Outgoing<FeedBatch::Request> EncodeFeed(uint32_t loader, uint64_t number, uint64_t skipped,
                                             const std::shared_ptr<const FedBatch>& batch,
                                             uint64_t session = 0);

ShareProgress DecodeProgress(const wire::FeedBatchRequest& request);

// Allocates the segments of a feed request in a new FedBatch, which owns them. tasks: labels of a
// sample. is_weighted: whether weights follow the labels. Errors: INVALID_ARGUMENT for lengths that
// exceed a batch's limits or do not fit dense_width, tasks and is_weighted.
using PlacedFeed = rpc::PlacedWith<FeedBatch::Request, std::shared_ptr<FedBatch>>;
StatusOr<PlacedFeed> PlaceFeed(const FeedBatch::Request::Counts& counts, size_t dense_width,
                               size_t tasks, bool is_weighted = false);

// Returns an upper bound of the memory of PlaceFeed's batch once decoded. Cost: see DecodedSizes.
// Errors: those errors of DecodeFeed that the batch's header and number of samples reveal.
StatusOr<size_t> FeedBytes(const FedBatch& fed, const ClusterConfig& config);

// Decodes PlaceFeed's batch, without its progress, and consumes it. Cost: see DecodeBatch.
// Errors: INVALID_ARGUMENT for a malformed batch, a wrong number of features, a list shared across
// tables, more samples than training.batch_size, labels that the losses do not
// allow, weights below 0, or weights or dense values that are not finite.
StatusOr<Batch> DecodeFeed(FedBatch& fed, const ClusterConfig& config);

}  // namespace simurgh::api
