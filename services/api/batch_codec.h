#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "services/api/methods.h"
#include "simurgh/base/status.h"
#include "simurgh/data/compact_batch.h"
#include "simurgh/train/ports.h"

namespace simurgh::api {

struct PullBatchMessage {
  BatchReference reference;
  PullPurpose purpose = PullPurpose::kTrain;
  TrainerPosition position;
  uint64_t acknowledged_steps = 0;
};

struct PushBatchMessage {
  BatchReference reference;
  TrainerPosition position;
  std::vector<float> learning_rates;  // By table.
};

// The batch's arrays are sent where they lie.
rpc::Outgoing<SubmitBatch::Request> EncodeSubmit(std::shared_ptr<const CompactBatch> batch);

// Places the segments of a submit request into a new CompactBatch, which becomes their owner.
// Errors: INVALID_ARGUMENT for lengths that do not fit the metadata, or a batch beyond the limits.
StatusOr<rpc::Places<SubmitBatch::Request>> PlaceSubmit(const wire::SubmitBatchRequest& request,
                                                        const SubmitBatch::Request::Counts& counts);

// The batch that PlaceSubmit made, validated.
StatusOr<std::shared_ptr<const CompactBatch>> DecodeSubmit(
    const rpc::Received<SubmitBatch::Request>& request);

rpc::Outgoing<SubmitBatch::Response> Encode(const BatchReference& reference);
BatchReference Decode(const wire::BatchReference& reference);

rpc::Outgoing<PullBatch::Request> Encode(const PullBatchMessage& message);
// Errors: INVALID_ARGUMENT for an unknown purpose.
StatusOr<PullBatchMessage> Decode(const wire::PullBatchRequest& request);

rpc::Outgoing<PushBatch::Request> Encode(const PushBatchMessage& message,
                                         rpc::SegmentSource<float> gradients);
PushBatchMessage Decode(const wire::PushBatchRequest& request);

}  // namespace simurgh::api
