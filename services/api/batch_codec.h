#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rpc/message.h"
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
};

// A whole submit request; its segments are the batch's arrays where they lie.
rpc::OutgoingMessage EncodeSubmit(std::shared_ptr<const CompactBatch> batch);

// Places the segments of a submit request into a new CompactBatch, which becomes their owner.
// Errors: INVALID_ARGUMENT for malformed metadata, lengths that do not fit it, or a batch beyond
// the limits.
rpc::Placement PlaceSubmit();

// The batch that PlaceSubmit made, validated.
StatusOr<std::shared_ptr<const CompactBatch>> DecodeSubmit(const rpc::IncomingMessage& message);

rpc::OutgoingSegment Encode(const BatchReference& reference);
StatusOr<BatchReference> DecodeReference(std::span<const std::byte> metadata);

rpc::OutgoingSegment Encode(const PullBatchMessage& message);
StatusOr<PullBatchMessage> DecodePullBatch(std::span<const std::byte> metadata);

rpc::OutgoingSegment Encode(const PushBatchMessage& message);
StatusOr<PushBatchMessage> DecodePushBatch(std::span<const std::byte> metadata);

}  // namespace simurgh::api
