#include "services/api/batch_codec.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/row_rpc.h"

namespace simurgh::api {
namespace {

flatbuffers::Offset<wire::BatchReference> Encode(flatbuffers::FlatBufferBuilder& builder,
                                                 const BatchReference& reference) {
  return wire::CreateBatchReference(builder, reference.worker_incarnation, reference.number);
}

StatusOr<VectorPrecision> DecodePrecision(const char* what, uint8_t precision) {
  if (precision > static_cast<uint8_t>(VectorPrecision::kInt8)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": precision: ", precision, " is unknown; use 0 to 3"));
  }
  return static_cast<VectorPrecision>(precision);
}

}  // namespace

rpc::Outgoing<SubmitBatch::Request> Encode(const SubmitOptions& options,
                                           const std::shared_ptr<const EncodedBatch>& batch) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root =
      wire::CreateSubmitBatchRequest(builder, static_cast<uint8_t>(options.mode), options.run,
                                     options.rank, options.step, options.lookahead_steps);
  return {builder, root, {batch->plain_ids, batch}, {batch->codes, batch}};
}

StatusOr<SubmitOptions> Decode(const wire::SubmitBatchRequest& request) {
  SIMURGH_ASSIGN_OR_RETURN(const LookupMode mode, DecodeLookupMode("submit", request.mode()));
  if (request.lookahead_steps() < 1 || request.lookahead_steps() > SubmitOptions::kMaxLookahead) {
    return absl::InvalidArgumentError(absl::StrCat("submit: ", request.lookahead_steps(),
                                                   " lookahead steps are out of range; use 1 to ",
                                                   SubmitOptions::kMaxLookahead));
  }
  return SubmitOptions{.mode = mode,
                       .run = request.run(),
                       .rank = request.rank(),
                       .step = request.step(),
                       .lookahead_steps = request.lookahead_steps()};
}

StatusOr<rpc::Destinations<SubmitBatch::Request>> PlaceSubmit(
    const SubmitBatch::Request::Counts& counts, EncodedBatch& batch,
    const std::shared_ptr<void>& owner) {
  const auto [plain_ids, codes] = counts;
  if (plain_ids > kMaxBatchOccurrences || codes > kMaxBatchCodeBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("submit: a batch of ", plain_ids, " plain ids and ", codes,
                     " bytes of codes is too large; use at most ", kMaxBatchOccurrences, " and ",
                     kMaxBatchCodeBytes));
  }
  batch.plain_ids.resize(plain_ids);
  batch.codes.resize(codes);
  return rpc::Destinations<SubmitBatch::Request>{{batch.plain_ids, owner}, {batch.codes, owner}};
}

rpc::Outgoing<SubmitBatch::Response> Encode(const BatchReference& reference) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = Encode(builder, reference);
  return {builder, root};
}

BatchReference Decode(const wire::BatchReference& reference) {
  return {.worker_incarnation = reference.worker_incarnation(), .number = reference.number()};
}

rpc::Outgoing<PullBatch::Request> Encode(const PullBatchMessage& message) {
  flatbuffers::FlatBufferBuilder builder;
  const auto reference = Encode(builder, message.reference);
  const PullOptions& options = message.options;
  const auto step_id = Encode(builder, options.step_id);
  const auto root = wire::CreatePullBatchRequest(
      builder, reference, static_cast<uint8_t>(options.mode), step_id, options.acknowledged_steps,
      static_cast<uint8_t>(message.precision), options.row_age_steps,
      static_cast<uint8_t>(message.form));
  return {builder, root};
}

rpc::Outgoing<PullBatch::Response> Encode(const PullAnswer& answer,
                                          rpc::SegmentSource<std::byte> embeddings) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = wire::CreatePullBatchResponse(builder, answer.row_age_steps);
  return {builder, root, std::move(embeddings), {answer.argmax.bytes, answer.argmax.owner}};
}

StatusOr<PullBatchMessage> Decode(const wire::PullBatchRequest& request) {
  SIMURGH_ASSIGN_OR_RETURN(const LookupMode mode, DecodeLookupMode("pull batch", request.mode()));
  if (request.form() > static_cast<uint8_t>(EmbeddingForm::kRows)) {
    return absl::InvalidArgumentError(
        absl::StrCat("pull batch: form: ", request.form(), " is unknown; use 0 or 1"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const VectorPrecision precision,
                           DecodePrecision("pull batch", request.precision()));
  return PullBatchMessage{.reference = Decode(*request.reference()),
                          .options = {.mode = mode,
                                      .step_id = Decode(*request.step_id()),
                                      .acknowledged_steps = request.acknowledged_steps(),
                                      .row_age_steps = request.row_age_steps()},
                          .precision = precision,
                          .form = static_cast<EmbeddingForm>(request.form())};
}

rpc::Outgoing<PushBatch::Request> Encode(const PushBatchMessage& message,
                                         rpc::SegmentSource<std::byte> gradients,
                                         const PooledArgmax& argmax) {
  flatbuffers::FlatBufferBuilder builder;
  const auto reference = Encode(builder, message.reference);
  const auto step_id = Encode(builder, message.step_id);
  const auto rates = builder.CreateVector(message.learning_rates);
  const auto root = wire::CreatePushBatchRequest(
      builder, reference, step_id, rates, static_cast<uint8_t>(message.precision), message.scale);
  return {builder, root, std::move(gradients), {argmax.bytes, argmax.owner}};
}

StatusOr<PushBatchMessage> Decode(const wire::PushBatchRequest& request) {
  SIMURGH_ASSIGN_OR_RETURN(const VectorPrecision precision,
                           DecodePrecision("push batch", request.precision()));
  if (!std::isnormal(request.scale()) || request.scale() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "push batch: scale ", request.scale(), " is out of range; use a normal number above 0"));
  }
  return PushBatchMessage{
      .reference = Decode(*request.reference()),
      .step_id = Decode(*request.step_id()),
      .learning_rates = {request.learning_rates()->begin(), request.learning_rates()->end()},
      .precision = precision,
      .scale = request.scale()};
}

}  // namespace simurgh::api
