#pragma once

#include <memory>
#include <vector>

#include "services/api/methods.h"
#include "simurgh/base/status.h"
#include "simurgh/config/embedding_form.h"
#include "simurgh/data/encoded_batch.h"
#include "simurgh/train/ports.h"

namespace simurgh::api {

struct PullBatchMessage {
  BatchReference reference;
  PullOptions options;
  VectorPrecision precision = VectorPrecision::kF32;
  EmbeddingForm form = EmbeddingForm::kPooled;
};

struct PushBatchMessage {
  BatchReference reference;
  StepId step_id;
  std::vector<float> learning_rates;  // By table.
  VectorPrecision precision = VectorPrecision::kF32;
  float scale = 1;  // Factor of the gradients.
};

// The segments refer to the batch's arrays.
rpc::Outgoing<SubmitBatch::Request> Encode(const SubmitOptions& options,
                                           const std::shared_ptr<const EncodedBatch>& batch);
// Errors: INVALID_ARGUMENT for an unknown mode, or lookahead_steps outside SubmitOptions' range.
StatusOr<SubmitOptions> Decode(const wire::SubmitBatchRequest& request);

// Allocates the segments of a submit request in `batch`, which `owner` keeps alive.
// Errors: INVALID_ARGUMENT for segments larger than the largest batch's.
StatusOr<rpc::Destinations<SubmitBatch::Request>> PlaceSubmit(
    const SubmitBatch::Request::Counts& counts, EncodedBatch& batch,
    const std::shared_ptr<void>& owner);

rpc::Outgoing<SubmitBatch::Response> Encode(const BatchReference& reference);
BatchReference Decode(const wire::BatchReference& reference);

rpc::Outgoing<PullBatch::Request> Encode(const PullBatchMessage& message);
// Errors: INVALID_ARGUMENT for an unknown mode, precision or form.
StatusOr<PullBatchMessage> Decode(const wire::PullBatchRequest& request);

rpc::Outgoing<PullBatch::Response> Encode(const PullAnswer& answer,
                                          rpc::SegmentSource<std::byte> embeddings);

rpc::Outgoing<PushBatch::Request> Encode(const PushBatchMessage& message,
                                         rpc::SegmentSource<std::byte> gradients,
                                         const PooledArgmax& argmax);
// Errors: INVALID_ARGUMENT for an unknown precision, or a scale that is not a normal number above
// 0.
StatusOr<PushBatchMessage> Decode(const wire::PushBatchRequest& request);

}  // namespace simurgh::api
