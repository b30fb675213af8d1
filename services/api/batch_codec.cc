#include "services/api/batch_codec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "services/api/batches_generated.h"
#include "services/api/metadata.h"

namespace simurgh::api {
namespace {

template <typename T>
rpc::OutgoingSegment Bytes(const std::vector<T>& values, const std::shared_ptr<const void>& owner) {
  return {std::as_bytes(std::span(values)), owner};
}

template <typename T>
rpc::IncomingSegment Room(std::vector<T>& values, uint64_t bytes,
                          const std::shared_ptr<void>& owner) {
  values.resize(bytes / sizeof(T));
  return {std::as_writable_bytes(std::span(values)), owner};
}

StatusOr<std::vector<rpc::IncomingSegment>> Place(std::span<const std::byte> metadata,
                                                  std::span<const uint64_t> lengths) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* request,
                           VerifiedRoot<SubmitBatchRequest>(metadata, "submit"));
  if (request->batch_size() > kMaxBatchSamples) {
    return absl::InvalidArgumentError(absl::StrCat("submit: batch of ", request->batch_size(),
                                                   " samples, allowed are ", kMaxBatchSamples));
  }
  const uint64_t features = request->unique_ends()->size();
  const uint64_t offsets = features * request->batch_size() + 1;
  if (lengths.size() != 3 || lengths[0] % sizeof(uint64_t) != 0 ||
      lengths[1] % sizeof(uint32_t) != 0 || lengths[2] != offsets * sizeof(uint32_t) ||
      lengths[0] > kMaxBatchOccurrences * sizeof(uint64_t) ||
      lengths[1] > kMaxBatchOccurrences * sizeof(uint32_t)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "submit: the segments do not fit ", features, " features of ", request->batch_size(),
        " samples with at most ", kMaxBatchOccurrences, " ids"));
  }
  auto batch = std::make_shared<CompactBatch>();
  batch->batch_size = request->batch_size();
  batch->unique_ends.assign(request->unique_ends()->begin(), request->unique_ends()->end());
  return std::vector<rpc::IncomingSegment>{Room(batch->ids, lengths[0], batch),
                                           Room(batch->occurrences, lengths[1], batch),
                                           Room(batch->offsets, lengths[2], batch)};
}

flatbuffers::Offset<api::BatchReference> Encode(flatbuffers::FlatBufferBuilder& builder,
                                                const simurgh::BatchReference& reference) {
  return CreateBatchReference(builder, reference.worker_epoch, reference.number);
}

simurgh::BatchReference Decode(const api::BatchReference& reference) {
  return {.worker_epoch = reference.worker_epoch(), .number = reference.number()};
}

TrainerPosition Decode(const Position& position) {
  return {position.run(), position.rank(), position.step()};
}

}  // namespace

rpc::OutgoingMessage EncodeSubmit(std::shared_ptr<const CompactBatch> batch) {
  flatbuffers::FlatBufferBuilder builder;
  const auto unique_ends = builder.CreateVector(batch->unique_ends);
  builder.Finish(CreateSubmitBatchRequest(builder, batch->batch_size, unique_ends));
  rpc::OutgoingMessage message;
  message.metadata = rpc::TakeMetadata(builder);
  message.segments = {Bytes(batch->ids, batch), Bytes(batch->occurrences, batch),
                      Bytes(batch->offsets, batch)};
  return message;
}

rpc::Placement PlaceSubmit() { return Place; }

StatusOr<std::shared_ptr<const CompactBatch>> DecodeSubmit(const rpc::IncomingMessage& message) {
  auto batch = std::static_pointer_cast<const CompactBatch>(
      std::shared_ptr<const void>(message.segments.at(0).owner));
  SIMURGH_RETURN_IF_ERROR(batch->Validate());
  return batch;
}

rpc::OutgoingSegment Encode(const simurgh::BatchReference& reference) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Encode(builder, reference));
  return rpc::TakeMetadata(builder);
}

StatusOr<simurgh::BatchReference> DecodeReference(std::span<const std::byte> metadata) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* reference,
                           VerifiedRoot<api::BatchReference>(metadata, "batch reference"));
  return Decode(*reference);
}

rpc::OutgoingSegment Encode(const PullBatchMessage& message) {
  flatbuffers::FlatBufferBuilder builder;
  const auto reference = Encode(builder, message.reference);
  const auto position =
      CreatePosition(builder, message.position.run, message.position.rank, message.position.step);
  builder.Finish(CreatePullBatchRequest(builder, reference, static_cast<uint8_t>(message.purpose),
                                        position, message.acknowledged_steps));
  return rpc::TakeMetadata(builder);
}

StatusOr<PullBatchMessage> DecodePullBatch(std::span<const std::byte> metadata) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* request,
                           VerifiedRoot<PullBatchRequest>(metadata, "pull batch"));
  if (request->purpose() > static_cast<uint8_t>(PullPurpose::kEvaluate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("pull batch: unknown purpose ", request->purpose()));
  }
  return PullBatchMessage{.reference = Decode(*request->reference()),
                          .purpose = static_cast<PullPurpose>(request->purpose()),
                          .position = Decode(*request->position()),
                          .acknowledged_steps = request->acknowledged_steps()};
}

rpc::OutgoingSegment Encode(const PushBatchMessage& message) {
  flatbuffers::FlatBufferBuilder builder;
  const auto reference = Encode(builder, message.reference);
  const auto position =
      CreatePosition(builder, message.position.run, message.position.rank, message.position.step);
  builder.Finish(CreatePushBatchRequest(builder, reference, position));
  return rpc::TakeMetadata(builder);
}

StatusOr<PushBatchMessage> DecodePushBatch(std::span<const std::byte> metadata) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* request,
                           VerifiedRoot<PushBatchRequest>(metadata, "push batch"));
  return PushBatchMessage{.reference = Decode(*request->reference()),
                          .position = Decode(*request->position())};
}

}  // namespace simurgh::api
