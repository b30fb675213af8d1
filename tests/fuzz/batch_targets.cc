// The batches that nn-workers send to embedding workers, and what else is sent between them.

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "data/batch/batch_builder.h"
#include "data/batch/encoded_batch.h"
#include "embedding/argmax_wire.h"
#include "embedding/row_codec.h"
#include "services/api/batch_rpc.h"
#include "tests/fuzz/schema.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

// --- submit_batch: the plain ids behind how many there are, then the codes.

// Everything that a worker looks at.
void Walk(const CompactBatch& batch) {
  size_t occurrences = 0;
  uint64_t sum = 0;
  double weights = 0.0;
  for (size_t f = 0; f < batch.feature_count(); ++f) {
    const FeatureView feature = batch.feature(f);
    for (size_t b = 0; b < batch.batch_size; ++b) {
      for (const uint32_t occurrence : feature.sample(b)) sum += feature.ids[occurrence];
      occurrences += feature.sample(b).size();
    }
    for (const float weight : feature.weights) weights += weight;
  }
  SIMURGH_CHECK_EQ(occurrences, batch.occurrences.size()) << sum << weights;
}

void RequireSame(const CompactBatch& one, const CompactBatch& other) {
  SIMURGH_CHECK_EQ(one.batch_size, other.batch_size);
  SIMURGH_CHECK(one.ids == other.ids);
  SIMURGH_CHECK(one.unique_ends == other.unique_ends);
  SIMURGH_CHECK(one.occurrences == other.occurrences);
  SIMURGH_CHECK(one.offsets == other.offsets);
  SIMURGH_CHECK(one.lists == other.lists);
  SIMURGH_CHECK(std::all_of(one.weights.begin(), one.weights.end(), [](float w) { return w == 1; })
                    ? other.weights.empty()
                    : one.weights == other.weights);
}

// Properties that a worker relies on.
void RequireWithin(const CompactBatch& batch, const BatchSizes& sizes) {
  SIMURGH_CHECK_EQ(batch.ids.size(), sizes.ids);
  SIMURGH_CHECK_EQ(batch.occurrences.size(), sizes.occurrences);
  SIMURGH_CHECK_EQ(batch.offsets.size(), sizes.offsets);
  SIMURGH_CHECK_EQ(batch.unique_ends.size(), sizes.unique_ends);
  SIMURGH_CHECK_EQ(batch.lists.size(), sizes.lists);
  SIMURGH_CHECK_LE(batch.weights.size(), sizes.weights);
}

// Limits of the sizes in a head, for these bytes: src/data/batch/COMPACT_BATCH.md.
void RequireModest(const BatchSizes& sizes, const EncodedBatch& encoded) {
  const size_t bytes = encoded.byte_size();
  SIMURGH_CHECK_LE(sizes.occurrences, std::min(8 * encoded.codes.size(), kMaxBatchOccurrences));
  SIMURGH_CHECK_EQ(sizes.ids, encoded.plain_ids.size());
  SIMURGH_CHECK_LE(sizes.weights, sizes.occurrences);
  SIMURGH_CHECK_LE(sizes.offsets, std::max(64 * bytes, kMaxBatchOccurrences) + 1);
  SIMURGH_CHECK_LE(sizes.unique_ends, bytes);
  SIMURGH_CHECK_LE(sizes.lists, bytes);
}

// A head is believed only so far: what is not refused at a glance takes no more than it announced,
// right or wrong, and what is takes nothing.
void RequireMemoryWithin(const BatchSizes& sizes, EncodedBatch encoded) {
  CompactBatch batch;
  DecodeBatch(encoded, batch).IgnoreError();
  SIMURGH_CHECK_LE(batch.ids.capacity(), sizes.ids);
  SIMURGH_CHECK_LE(batch.occurrences.capacity(), sizes.occurrences);
  SIMURGH_CHECK_LE(batch.offsets.capacity(), sizes.offsets);
  SIMURGH_CHECK_LE(batch.unique_ends.capacity(), sizes.unique_ends);
  SIMURGH_CHECK_LE(batch.lists.capacity(), sizes.lists);
  SIMURGH_CHECK_LE(batch.weights.capacity(), sizes.weights);
}

void RunSubmit(Input input) {
  SeedReader reader(input);
  // As the transport lets them land, in memory that held another batch before.
  EncodedBatch encoded;
  encoded.plain_ids.resize(reader.Value<uint8_t>());
  for (uint64_t& id : encoded.plain_ids) id = reader.Value<uint64_t>();
  encoded.codes = ToBytes(reader.rest());
  static CompactBatch batch;
  const StatusOr<BatchSizes> sizes = DecodedSizes(encoded);
  if (sizes.ok()) RequireModest(*sizes, encoded);
  RequireMemoryWithin(sizes.value_or(BatchSizes()), encoded);
  const Status decoded = DecodeBatch(encoded, batch);
  if (IsRefusal(decoded)) return;
  SIMURGH_CHECK(sizes.ok()) << sizes.status().ToString();
  RequireWithin(batch, *sizes);
  const Status valid = batch.Validate();
  SIMURGH_CHECK(valid.ok()) << valid.ToString();
  // A few bytes may encode millions of samples without ids, and visiting each is slow.
  constexpr size_t kMaxCells = size_t{1} << 18;
  if (batch.offsets.size() > kMaxCells) return;
  Walk(batch);
  const auto again = EncodeBatch(batch);
  SIMURGH_CHECK(again.ok()) << again.status().ToString();
  const auto second = DecodeBatch(*again);
  SIMURGH_CHECK(second.ok());
  RequireSame(batch, *second);
}

Bytes SubmitSeed(const CompactBatch& batch) {
  const auto encoded = EncodeBatch(batch);
  SIMURGH_CHECK(encoded.ok());
  SeedWriter seed;
  seed.Value(static_cast<uint8_t>(encoded->plain_ids.size()));
  for (const uint64_t id : encoded->plain_ids) seed.Value(id);
  return seed.Rest(encoded->codes).bytes();
}

// Ids of several kinds, several and none a sample, weights, features that share a list.
CompactBatch SomeBatch(uint64_t step, uint64_t samples) {
  BatchBuilder builder({0, 0, 1, 2}, 0);
  for (uint64_t b = 0; b < samples; ++b) {
    for (uint64_t i = 0; i < b % 4; ++i) builder.AddId(0, 11 + (b + i) % 5 * step);
    if (b % 7 != 0) builder.AddId(1, 11 + b * step, b % 2 == 0 ? 1.0F : 0.25F);
    builder.AddId(2, Mix64(b % 9));
    builder.AddId(3, 1'000'000 + b);
    builder.EndSample();
  }
  return *builder.Build()->sparse;
}

std::vector<Bytes> SubmitSeeds() {
  CompactBatch empty;
  empty.offsets = {0};
  CompactBatch none = empty;
  none.batch_size = 7;
  std::vector<Bytes> seeds{SubmitSeed(empty), SubmitSeed(none)};
  for (const uint64_t samples : {1, 2, 3, 70, 200}) {
    seeds.push_back(SubmitSeed(SomeBatch(1, samples)));
    seeds.push_back(SubmitSeed(SomeBatch(uint64_t{1} << 40, samples)));
  }
  return seeds;
}

// --- argmax: the dim, how many samples, their numbers of occurrences, then what is decoded.

void RunArgmax(Input input) {
  SeedReader reader(input);
  BatchLayout layout{.features = {{.pooling = {.kind = Pooling::kMax}}},
                     .table_dims = {reader.Value<uint8_t>()}};
  const size_t dim = layout.table_dims[0];
  CompactBatch batch{.batch_size = reader.Value<uint8_t>(), .offsets = {0}, .unique_ends = {0}};
  for (size_t b = 0; b < batch.batch_size; ++b) {
    batch.offsets.push_back(batch.offsets.back() + reader.Value<uint16_t>());
  }
  Bytes bytes = ToBytes(reader.rest());
  bytes.resize(ArgmaxBytes(layout, batch));
  std::vector<uint32_t> argmax(batch.batch_size * dim);
  if (IsRefusal(DecodeArgmax(layout, batch, bytes, argmax))) return;
  for (size_t i = 0; i < argmax.size(); ++i) {
    const uint32_t count = batch.offsets[i / dim + 1] - batch.offsets[i / dim];
    SIMURGH_CHECK(count == 0 ? argmax[i] == 0 : argmax[i] < count);
  }
  Bytes again(bytes.size());
  EncodeArgmax(layout, batch, argmax, again);
  SIMURGH_CHECK(again == bytes);
}

std::vector<Bytes> ArgmaxSeeds() {
  SeedWriter some;
  some.Value(uint8_t{2}).Value(uint8_t{4});
  for (const uint16_t count : {0, 1, 3, 300}) some.Value(count);
  for (const uint16_t position : {0, 0, 0, 0, 2, 1, 299, 7}) some.Value(position);
  return {SeedWriter().bytes(), some.bytes()};
}

// --- vectors: precision and dims, then encoded rows.

void RunVectors(Input input) {
  SeedReader reader(input);
  const auto precision = static_cast<VectorPrecision>(reader.Value<uint8_t>() % 4);
  std::vector<uint32_t> dims(1 + reader.Value<uint8_t>() % 3);
  for (uint32_t& dim : dims) dim = 1 + reader.Value<uint8_t>() % 40;
  const VectorCodec codec(precision, dims);
  Bytes bytes = ToBytes(reader.rest());
  const size_t rows = bytes.size() / codec.row_bytes();
  bytes.resize(rows * codec.row_bytes());
  std::vector<float> values(rows * codec.columns());
  const MatrixView<float> matrix(values.data(), rows, codec.columns());
  codec.Decode(bytes, 1, matrix);
  const bool exact = precision != VectorPrecision::kInt8 &&
                     std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  if (!exact) return;
  Bytes again(bytes.size());
  codec.Encode({values.data(), rows, codec.columns()}, 1, std::nullopt, again);
  SIMURGH_CHECK(again == bytes);
}

std::vector<Bytes> VectorsSeeds() {
  std::vector<Bytes> seeds;
  const std::vector<float> values{1, -2.5F, 0, 3e4F, 1e-3F, -7};
  for (const uint8_t precision : {0, 1, 2, 3}) {
    const VectorCodec codec(static_cast<VectorPrecision>(precision), {1, 2});
    Bytes bytes(2 * codec.row_bytes());
    codec.Encode({values.data(), 2, 3}, 1, std::nullopt, bytes);
    SeedWriter seed;
    seed.Value(precision).Value(uint8_t{1}).Value(uint8_t{0}).Value(uint8_t{1});
    seeds.push_back(seed.Rest(bytes).bytes());
  }
  return seeds;
}

// --- pooled_rows: precision and samples, then the batch's rows. Pooled at once and in parts, they
// give the same embeddings.

void RunPooledRows(Input input) {
  SeedReader reader(input);
  const auto precision = static_cast<VectorPrecision>(reader.Value<uint8_t>() % 4);
  const CompactBatch batch = SomeBatch(1, reader.Value<uint8_t>() % 32);
  const RowCodec codec(precision, {{3, {Pooling::kMean}},
                                   {3, {Pooling::kWeightedSum}},
                                   {5, {Pooling::kRaw, 2}},
                                   {1, {Pooling::kSqrtN}}});
  Bytes rows = ToBytes(reader.rest());
  rows.resize(codec.bytes(batch));
  constexpr size_t kWidth = 3 + 3 + 10 + 1;
  const auto pool = [&](size_t parts) {
    std::vector<float> pooled(batch.batch_size * kWidth);
    codec.Pool(batch, rows, {pooled.data(), batch.batch_size, kWidth},
               [&](size_t count, size_t, absl::FunctionRef<void(size_t, size_t)> work) {
                 for (size_t part = 0; part < parts; ++part) {
                   work(count * part / parts, count * (part + 1) / parts);
                 }
               });
    return pooled;
  };
  const std::vector<float> whole = pool(1);
  const std::vector<float> parts = pool(3);
  for (size_t i = 0; i < whole.size(); ++i) {
    SIMURGH_CHECK(SameFloat(whole[i], parts[i]));
  }
}

std::vector<Bytes> PooledRowsSeeds() {
  std::vector<Bytes> seeds;
  for (const uint8_t precision : {0, 1, 2, 3}) {
    seeds.push_back(SeedWriter().Value(precision).Value(uint8_t{9}).Rest(Bytes(700)).bytes());
  }
  return seeds;
}

// --- The others are metadata alone.

bool Same(const BatchReference& one, const BatchReference& other) {
  return one.worker_incarnation == other.worker_incarnation && one.number == other.number;
}

void RunSubmitOptions(Input input) {
  const Received<api::wire::SubmitBatchRequest> request(input);
  if (request.table == nullptr) return;
  const auto options = api::Decode(*request.table);
  if (IsRefusal(options.status())) return;
  SIMURGH_CHECK(options->lookahead_steps >= 1 &&
                options->lookahead_steps <= SubmitOptions::kMaxLookahead);
  const Received<api::wire::SubmitBatchRequest> again(
      api::Encode(*options, std::make_shared<const EncodedBatch>()));
  const auto second = api::Decode(*again.table);
  SIMURGH_CHECK(second.ok());
  SIMURGH_CHECK(second->mode == options->mode);
  SIMURGH_CHECK_EQ(second->run, options->run);
  SIMURGH_CHECK_EQ(second->rank, options->rank);
  SIMURGH_CHECK_EQ(second->step, options->step);
  SIMURGH_CHECK_EQ(second->lookahead_steps, options->lookahead_steps);
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
  SIMURGH_CHECK(fuzz::Same(second->options.step_id, message->options.step_id));
  SIMURGH_CHECK(second->options.mode == message->options.mode);
  SIMURGH_CHECK_EQ(second->options.needed.awaited_steps, message->options.needed.awaited_steps);
  SIMURGH_CHECK_EQ(second->options.needed.acknowledged_steps,
                   message->options.needed.acknowledged_steps);
  SIMURGH_CHECK_EQ(second->options.row_age_steps, message->options.row_age_steps);
  SIMURGH_CHECK(second->precision == message->precision);
  SIMURGH_CHECK(second->form == message->form);
}

void RunPulledBatch(Input input) {
  const Received<api::wire::PullBatchResponse> response(input);
  if (response.table == nullptr) return;
  const uint32_t age = response.table->row_age_steps();
  const Received<api::wire::PullBatchResponse> again(
      api::Encode(PullAnswer{.row_age_steps = age}, {}));
  SIMURGH_CHECK_EQ(again.table->row_age_steps(), age);
}

void RunPushBatch(Input input) {
  const Received<api::wire::PushBatchRequest> request(input);
  if (request.table == nullptr) return;
  const auto message = api::Decode(*request.table);
  if (IsRefusal(message.status())) return;
  const Received<api::wire::PushBatchRequest> again(api::Encode(*message, {}, {}));
  const auto second = api::Decode(*again.table);
  SIMURGH_CHECK(second.ok());
  SIMURGH_CHECK(Same(second->reference, message->reference));
  SIMURGH_CHECK(fuzz::Same(second->step_id, message->step_id));
  SIMURGH_CHECK(second->precision == message->precision);
  SIMURGH_CHECK_EQ(second->scale, message->scale);
}

constexpr BatchReference kSomeReference{.worker_incarnation = 7, .number = 8};
constexpr StepId kSomeStepId{.run = 5, .rank = 1, .step = 77};

std::vector<Bytes> SubmitOptionsSeeds() {
  const auto batch = std::make_shared<const EncodedBatch>();
  return {MetadataOf(api::Encode(SubmitOptions(), batch)),
          MetadataOf(api::Encode({.mode = LookupMode::kEvaluate,
                                  .run = 5,
                                  .rank = 1,
                                  .step = 77,
                                  .lookahead_steps = SubmitOptions::kMaxLookahead},
                                 batch))};
}

std::vector<Bytes> ReferenceSeeds() {
  return {MetadataOf(api::Encode(BatchReference())), MetadataOf(api::Encode(kSomeReference))};
}

std::vector<Bytes> PullBatchSeeds() {
  return {
      MetadataOf(api::Encode(api::PullBatchMessage())),
      MetadataOf(api::Encode(api::PullBatchMessage{.reference = kSomeReference,
                                                   .options = {.mode = LookupMode::kEvaluate,
                                                               .step_id = kSomeStepId,
                                                               .needed = {.acknowledged_steps = 70},
                                                               .row_age_steps = 3},
                                                   .precision = VectorPrecision::kInt8,
                                                   .form = EmbeddingForm::kRows}))};
}

std::vector<Bytes> PulledBatchSeeds() {
  return {MetadataOf(api::Encode(PullAnswer(), {})),
          MetadataOf(api::Encode(PullAnswer{.row_age_steps = 63}, {}))};
}

std::vector<Bytes> PushBatchSeeds() {
  return {MetadataOf(api::Encode(api::PushBatchMessage(), {}, {})),
          MetadataOf(api::Encode({.reference = kSomeReference,
                                  .step_id = kSomeStepId,
                                  .precision = VectorPrecision::kF16,
                                  .scale = 1024.0F},
                                 {}, {}))};
}

}  // namespace

std::vector<Target> BatchTargets() {
  return {{"submit_batch", RunSubmit, SubmitSeeds},
          {"submit_options", RunSubmitOptions, SubmitOptionsSeeds},
          {"argmax", RunArgmax, ArgmaxSeeds},
          {"vectors", RunVectors, VectorsSeeds},
          {"pooled_rows", RunPooledRows, PooledRowsSeeds},
          {"batch_reference", RunReference, ReferenceSeeds},
          {"pull_batch", RunPullBatch, PullBatchSeeds},
          {"pulled_batch", RunPulledBatch, PulledBatchSeeds},
          {"push_batch", RunPushBatch, PushBatchSeeds}};
}

}  // namespace simurgh::fuzz
