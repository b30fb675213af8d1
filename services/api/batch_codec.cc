#include "services/api/batch_codec.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh::api {
namespace {

template <typename T>
rpc::SegmentPlace<T> Room(std::vector<T>& values, uint64_t count,
                          const std::shared_ptr<void>& owner) {
  values.resize(count);
  return {values, owner};
}

flatbuffers::Offset<wire::BatchReference> Encode(flatbuffers::FlatBufferBuilder& builder,
                                                 const BatchReference& reference) {
  return wire::CreateBatchReference(builder, reference.worker_epoch, reference.number);
}

flatbuffers::Offset<wire::Position> Encode(flatbuffers::FlatBufferBuilder& builder,
                                           const TrainerPosition& position) {
  return wire::CreatePosition(builder, position.run, position.rank, position.step);
}

TrainerPosition Decode(const wire::Position& position) {
  return {position.run(), position.rank(), position.step()};
}

}  // namespace

rpc::Outgoing<SubmitBatch::Request> EncodeSubmit(std::shared_ptr<const CompactBatch> batch) {
  flatbuffers::FlatBufferBuilder builder;
  const auto unique_ends = builder.CreateVector(batch->unique_ends);
  const auto root = wire::CreateSubmitBatchRequest(builder, batch->batch_size, unique_ends);
  return {builder, root, {batch->ids, batch}, {batch->occurrences, batch}, {batch->offsets, batch}};
}

StatusOr<rpc::Places<SubmitBatch::Request>> PlaceSubmit(
    const wire::SubmitBatchRequest& request, const SubmitBatch::Request::Counts& counts) {
  if (request.batch_size() > kMaxBatchSamples) {
    return absl::InvalidArgumentError(absl::StrCat("submit: batch of ", request.batch_size(),
                                                   " samples, allowed are ", kMaxBatchSamples));
  }
  const auto [ids, occurrences, offsets] = counts;
  const uint64_t features = request.unique_ends()->size();
  if (ids > kMaxBatchOccurrences || occurrences > kMaxBatchOccurrences ||
      offsets != features * request.batch_size() + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("submit: the segments do not fit ", features, " features of ",
                     request.batch_size(), " samples with at most ", kMaxBatchOccurrences, " ids"));
  }
  auto batch = std::make_shared<CompactBatch>();
  batch->batch_size = request.batch_size();
  batch->unique_ends.assign(request.unique_ends()->begin(), request.unique_ends()->end());
  return rpc::Places<SubmitBatch::Request>{Room(batch->ids, ids, batch),
                                           Room(batch->occurrences, occurrences, batch),
                                           Room(batch->offsets, offsets, batch)};
}

StatusOr<std::shared_ptr<const CompactBatch>> DecodeSubmit(
    const rpc::Received<SubmitBatch::Request>& request) {
  auto batch = std::static_pointer_cast<const CompactBatch>(request.owner<"ids">());
  SIMURGH_RETURN_IF_ERROR(batch->Validate());
  return batch;
}

rpc::Outgoing<SubmitBatch::Response> Encode(const BatchReference& reference) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = Encode(builder, reference);
  return {builder, root};
}

BatchReference Decode(const wire::BatchReference& reference) {
  return {.worker_epoch = reference.worker_epoch(), .number = reference.number()};
}

rpc::Outgoing<PullBatch::Request> Encode(const PullBatchMessage& message) {
  flatbuffers::FlatBufferBuilder builder;
  const auto reference = Encode(builder, message.reference);
  const auto position = Encode(builder, message.position);
  const auto root =
      wire::CreatePullBatchRequest(builder, reference, static_cast<uint8_t>(message.purpose),
                                   position, message.acknowledged_steps);
  return {builder, root};
}

StatusOr<PullBatchMessage> Decode(const wire::PullBatchRequest& request) {
  if (request.purpose() > static_cast<uint8_t>(PullPurpose::kEvaluate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("pull batch: unknown purpose ", request.purpose()));
  }
  return PullBatchMessage{.reference = Decode(*request.reference()),
                          .purpose = static_cast<PullPurpose>(request.purpose()),
                          .position = Decode(*request.position()),
                          .acknowledged_steps = request.acknowledged_steps()};
}

rpc::Outgoing<PushBatch::Request> Encode(const PushBatchMessage& message,
                                         rpc::SegmentSource<float> gradients) {
  flatbuffers::FlatBufferBuilder builder;
  const auto reference = Encode(builder, message.reference);
  const auto position = Encode(builder, message.position);
  const auto rates = builder.CreateVector(message.learning_rates);
  const auto root = wire::CreatePushBatchRequest(builder, reference, position, rates);
  return {builder, root, std::move(gradients)};
}

PushBatchMessage Decode(const wire::PushBatchRequest& request) {
  return {.reference = Decode(*request.reference()),
          .position = Decode(*request.position()),
          .learning_rates = {request.learning_rates()->begin(), request.learning_rates()->end()}};
}

}  // namespace simurgh::api
