// The messages between nn-workers and embedding workers, and the batches in them.

#include <array>
#include <cstring>
#include <memory>
#include <tuple>

#include "services/api/batch_codec.h"
#include "simurgh/base/check.h"
#include "simurgh/data/batch_builder.h"
#include "tests/fuzz/schema.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

using Submit = api::SubmitBatch::Request;

// --- submit_batch: the metadata, then the segments, each behind its length.

// Lets the parts land as the transport does.
StatusOr<std::shared_ptr<const CompactBatch>> Land(const api::wire::SubmitBatchRequest& table,
                                                   std::span<const Bytes, 3> parts) {
  const std::array<uint64_t, 3> lengths{parts[0].size(), parts[1].size(), parts[2].size()};
  SIMURGH_RETURN_IF_ERROR(
      rpc::internal::CheckSegments("fuzz", Submit::kNames, Submit::kElementBytes, lengths));
  Submit::Counts counts{};
  for (size_t i = 0; i < 3; ++i) counts[i] = lengths[i] / Submit::kElementBytes[i];
  SIMURGH_ASSIGN_OR_RETURN(auto places, api::PlaceSubmit(table, counts));
  rpc::IncomingMessage landed;
  const auto land = [&](auto& place) {
    const Bytes& part = parts[landed.segments.size()];
    SIMURGH_CHECK_EQ(place.values.size_bytes(), part.size());
    if (!part.empty()) std::memcpy(place.values.data(), part.data(), part.size());
    landed.segments.push_back({std::as_bytes(place.values), place.owner});
  };
  std::apply([&](auto&... place) { (land(place), ...); }, places);
  return api::DecodeSubmit(rpc::Received<Submit>(std::move(landed)));
}

// Everything that a worker looks at.
void Walk(const CompactBatch& batch) {
  size_t occurrences = 0;
  uint64_t sum = 0;
  for (size_t f = 0; f < batch.feature_count(); ++f) {
    const FeatureView feature = batch.feature(f);
    for (size_t b = 0; b < batch.batch_size; ++b) {
      for (const uint32_t occurrence : feature.sample(b)) sum += feature.ids[occurrence];
      occurrences += feature.sample(b).size();
    }
  }
  SIMURGH_CHECK_EQ(occurrences, batch.occurrences.size()) << sum;
}

void RunSubmit(Input input) {
  SeedReader reader(input);
  const Received<api::wire::SubmitBatchRequest> request{Input(reader.Part())};
  const std::array<Bytes, 3> parts{reader.Part(), reader.Part(), reader.Part()};
  if (request.table == nullptr) return;
  const auto batch = Land(*request.table, parts);
  if (IsRefusal(batch.status())) return;
  Walk(**batch);
  const rpc::Outgoing<Submit> again = api::EncodeSubmit(*batch);
  const Received<api::wire::SubmitBatchRequest> second(again);
  SIMURGH_CHECK_EQ(second.table->batch_size(), (*batch)->batch_size);
  for (size_t i = 0; i < 3; ++i) {
    SIMURGH_CHECK(std::ranges::equal(again.message().segments[i].bytes, parts[i]));
  }
}

Bytes SubmitSeed(const std::shared_ptr<const CompactBatch>& batch) {
  const rpc::Outgoing<Submit> request = api::EncodeSubmit(batch);
  SeedWriter seed;
  seed.Part(request.message().metadata.bytes);
  for (const auto& segment : request.message().segments) seed.Part(segment.bytes);
  return seed.bytes();
}

std::vector<Bytes> SubmitSeeds() {
  BatchBuilder builder(2, 0);
  builder.AddId(0, 11);
  builder.AddId(0, 12);
  builder.AddId(1, 11);
  builder.EndSample();
  builder.AddId(1, 13);
  builder.AddId(1, 13);
  builder.EndSample();
  builder.EndSample();
  auto empty = std::make_shared<CompactBatch>();
  empty->offsets = {0};
  return {SubmitSeed(builder.Build()->sparse), SubmitSeed(empty)};
}

// --- The others are metadata alone.

bool Same(const BatchReference& one, const BatchReference& other) {
  return one.worker_epoch == other.worker_epoch && one.number == other.number;
}

void RunReference(Input input) {
  const Received<api::wire::BatchReference> response(input);
  if (response.table == nullptr) return;
  const BatchReference reference = api::Decode(*response.table);
  const Received<api::wire::BatchReference> again(api::Encode(reference));
  SIMURGH_CHECK(Same(api::Decode(*again.table), reference));
}

void RunPullBatch(Input input) {
  const Received<api::wire::PullBatchRequest> request(input);
  if (request.table == nullptr) return;
  const auto message = api::Decode(*request.table);
  if (IsRefusal(message.status())) return;
  const Received<api::wire::PullBatchRequest> again(api::Encode(*message));
  const auto second = api::Decode(*again.table);
  SIMURGH_CHECK(second.ok());
  SIMURGH_CHECK(Same(second->reference, message->reference));
  SIMURGH_CHECK(fuzz::Same(second->position, message->position));
  SIMURGH_CHECK(second->purpose == message->purpose);
  SIMURGH_CHECK_EQ(second->acknowledged_steps, message->acknowledged_steps);
}

void RunPushBatch(Input input) {
  const Received<api::wire::PushBatchRequest> request(input);
  if (request.table == nullptr) return;
  const api::PushBatchMessage message = api::Decode(*request.table);
  const Received<api::wire::PushBatchRequest> again(api::Encode(message, {}));
  const api::PushBatchMessage second = api::Decode(*again.table);
  SIMURGH_CHECK(Same(second.reference, message.reference));
  SIMURGH_CHECK(fuzz::Same(second.position, message.position));
}

constexpr BatchReference kSomeReference{.worker_epoch = 7, .number = 8};
constexpr TrainerPosition kSomePosition{.run = 5, .rank = 1, .step = 77};

std::vector<Bytes> ReferenceSeeds() {
  return {MetadataOf(api::Encode(BatchReference())), MetadataOf(api::Encode(kSomeReference))};
}

std::vector<Bytes> PullBatchSeeds() {
  return {MetadataOf(api::Encode(api::PullBatchMessage())),
          MetadataOf(api::Encode(api::PullBatchMessage{.reference = kSomeReference,
                                                       .purpose = PullPurpose::kEvaluate,
                                                       .position = kSomePosition,
                                                       .acknowledged_steps = 70}))};
}

std::vector<Bytes> PushBatchSeeds() {
  return {MetadataOf(api::Encode(api::PushBatchMessage(), {})),
          MetadataOf(api::Encode({.reference = kSomeReference, .position = kSomePosition}, {}))};
}

}  // namespace

std::vector<Target> BatchTargets() {
  return {{"submit_batch", RunSubmit, SubmitSeeds},
          {"batch_reference", RunReference, ReferenceSeeds},
          {"pull_batch", RunPullBatch, PullBatchSeeds},
          {"push_batch", RunPushBatch, PushBatchSeeds}};
}

}  // namespace simurgh::fuzz
