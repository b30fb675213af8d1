#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "services/api/feed_methods.h"
#include "services/api/skipped_rows.h"
#include "simurgh/base/status.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/data/batch.h"
#include "simurgh/data/encoded_batch.h"

namespace simurgh::api {

// input: InputAgreement of the fitted configuration, or empty, see LoaderClientOptions.
rpc::Outgoing<OpenFeed::Request> EncodeOpen(uint32_t loader, uint32_t loaders, uint32_t rank,
                                            uint32_t ranks, const std::string& input);

// A batch as it travels.
struct FedBatch {
  EncodedBatch sparse;
  DenseBatch dense;
};

// The batch's arrays are sent where they lie.
rpc::Outgoing<FeedBatch::Request> EncodeFeed(uint32_t loader, uint64_t number, SkippedRows skipped,
                                             std::shared_ptr<const FedBatch> batch);

wire::SkippedRows EncodeSkipped(SkippedRows skipped);
SkippedRows DecodeSkipped(const wire::SkippedRows* skipped);

// Destinations the segments of a feed request into a new FedBatch, which becomes their owner.
// Errors: INVALID_ARGUMENT for lengths beyond a batch's limits, or that do not fit dense_width and
// tasks, which are the labels of a sample.
StatusOr<rpc::Destinations<FeedBatch::Request>> PlaceFeed(const FeedBatch::Request::Counts& counts,
                                                          size_t dense_width, size_t tasks);

// What the batch that PlaceFeed made takes in memory once it is decoded, at most.
// Cost: of DecodedSizes.
// Errors: of DecodeFeed, as far as the batch's head and its number of samples tell.
StatusOr<size_t> FeedBytes(const rpc::Received<FeedBatch::Request>& request,
                           const ClusterConfig& config);

// The batch that PlaceFeed made, as the network takes it. Call once.
// Cost: of DecodeBatch.
// Errors: INVALID_ARGUMENT for a batch that is malformed, has other features than the cluster or
// lists that join tables, more samples than training.batch_size, labels other than 0 and 1, or
// dense values that are not finite.
StatusOr<Batch> DecodeFeed(const rpc::Received<FeedBatch::Request>& request,
                           const ClusterConfig& config);

}  // namespace simurgh::api
