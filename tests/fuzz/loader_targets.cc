// What loaders, other ranks and `simurgh checkpoint` send to nn-workers.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "collective/collective.h"
#include "data/batch/batch_builder.h"
#include "data/batch/data_position.h"
#include "data/batch/encoded_batch.h"
#include "services/api/loader_rpc.h"
#include "services/api/methods.h"
#include "tests/fuzz/schema.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

constexpr size_t kDenseWidth = 2;
constexpr size_t kTasks = 2;
constexpr uint32_t kBatchSize = 64;
constexpr size_t kLabelValues = kTasks + 1;  // With the weight.

const ClusterConfig& Config() {
  static const ClusterConfig config = [] {
    ClusterConfig cluster;
    cluster.training.batch_size = kBatchSize;
    cluster.model.tasks.resize(kTasks);
    cluster.model.tasks[1].loss.kind = LossConfig::Kind::kPoisson;
    for (const uint32_t table : {0, 0, 1}) {
      FeatureConfig feature;
      feature.name = "f" + std::to_string(cluster.features.size());
      feature.table_index = table;
      cluster.features.push_back(feature);
    }
    return cluster;
  }();
  return config;
}

// --- feed_batch: how many labels and weights, dense values and plain ids, these, then the codes.

template <typename T>
void Fill(std::vector<T>& values, size_t count, SeedReader& reader) {
  values.resize(count);
  for (T& value : values) value = reader.Value<T>();
}

// As the transport lets it land.
std::shared_ptr<api::FedBatch> Land(Input input) {
  SeedReader reader(input);
  const auto labels = reader.Value<uint8_t>();
  const auto dense = reader.Value<uint8_t>();
  const auto plain_ids = reader.Value<uint8_t>();
  auto batch = std::make_shared<api::FedBatch>();
  batch->dense.batch_size = labels / kLabelValues;
  batch->dense.tasks = kTasks;
  batch->dense.width = kDenseWidth;
  Fill(batch->dense.labels, labels, reader);
  Fill(batch->dense.values, dense, reader);
  Fill(batch->sparse.plain_ids, plain_ids, reader);
  batch->sparse.codes = ToBytes(reader.rest());
  return batch;
}

// Memory of a batch.
size_t BytesOf(const Batch& batch) {
  const CompactBatch& ids = *batch.sparse;
  return ids.ids.capacity() * sizeof(uint64_t) +
         (ids.occurrences.capacity() + ids.offsets.capacity() + ids.unique_ends.capacity() +
          ids.lists.capacity()) *
             sizeof(uint32_t) +
         (ids.weights.capacity() + batch.dense.values.capacity() + batch.dense.labels.capacity()) *
             sizeof(float);
}

void RunFeedBatch(Input input) {
  const auto batch = Land(input);
  const auto places = api::PlaceFeed({batch->sparse.plain_ids.size(), batch->sparse.codes.size(),
                                      batch->dense.values.size(), batch->dense.labels.size()},
                                     kDenseWidth, kTasks, /*is_weighted=*/true);
  if (IsRefusal(places.status())) return;
  const auto bytes = api::FeedBytes(*batch, Config());
  const auto decoded = api::DecodeFeed(*batch, Config());
  if (IsRefusal(decoded.status())) return;
  SIMURGH_CHECK(bytes.ok()) << bytes.status().ToString();
  SIMURGH_CHECK_LE(BytesOf(*decoded), *bytes);
  SIMURGH_CHECK(decoded->sparse->Validate().ok());
  SIMURGH_CHECK_EQ(decoded->sparse->feature_count(), Config().features.size());
  SIMURGH_CHECK_EQ(decoded->sparse->batch_size, decoded->dense.batch_size);
  SIMURGH_CHECK_LE(decoded->dense.batch_size, size_t{kBatchSize});
  SIMURGH_CHECK_EQ(decoded->dense.values.size(), decoded->dense.batch_size * kDenseWidth);
  const size_t samples = decoded->dense.batch_size;
  SIMURGH_CHECK_EQ(decoded->dense.labels.size(), samples * kLabelValues);
  SIMURGH_CHECK_EQ(decoded->dense.weights().size(), samples);
  for (size_t i = 0; i < samples * kLabelValues; ++i) {
    const float value = decoded->dense.labels[i];
    const bool is_label = i < samples * kTasks;
    if (is_label && std::isnan(value)) continue;  // Unknown.
    const bool is_binary = is_label && i % kTasks == 0;
    SIMURGH_CHECK(is_binary ? value == 0.0F || value == 1.0F : std::isfinite(value) && value >= 0);
  }
}

std::vector<Bytes> FeedBatchSeeds() {
  std::vector<Bytes> seeds;
  for (const size_t samples : {1, 2, 64}) {
    BatchBuilder builder({0, 0, 1}, 0);
    for (size_t b = 0; b < samples; ++b) {
      for (size_t f = 0; f < 3; ++f) builder.AddId(f, (b * 7 + f) << (b % 40));
      builder.EndSample();
    }
    const auto encoded = EncodeBatch(*builder.Build()->sparse);
    SIMURGH_CHECK(encoded.ok());
    SeedWriter seed;
    seed.Value(static_cast<uint8_t>(samples * kLabelValues));
    seed.Value(static_cast<uint8_t>(samples * kDenseWidth));
    seed.Value(static_cast<uint8_t>(encoded->plain_ids.size()));
    for (size_t i = 0; i < samples * kLabelValues; ++i) seed.Value(static_cast<float>(i % 3 / 2));
    for (size_t i = 0; i < samples * kDenseWidth; ++i) seed.Value(0.5F * static_cast<float>(i));
    for (const uint64_t id : encoded->plain_ids) seed.Value(id);
    seeds.push_back(seed.Rest(encoded->codes).bytes());
  }
  return seeds;
}

// --- feed: metadata of numbers only; the first byte selects the message.

template <typename Message>
Bytes Seed(uint8_t which, const Message& message) {
  SeedWriter seed;
  seed.Value(which);
  return seed.Rest(MetadataOf(message)).bytes();
}

rpc::Outgoing<api::FeedBatch::Response> Wanted(bool wanted) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = api::wire::CreateFeedBatchResponse(builder, wanted);
  return {builder, root};
}

rpc::Outgoing<api::OpenFeed::Response> Taken(uint64_t taken, const std::string& position) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(position);
  const auto root = api::wire::CreateOpenFeedResponse(builder, taken, text);
  return {builder, root};
}

// error: empty for none.
rpc::Outgoing<api::EndFeed::Request> End(uint32_t loader, uint64_t batches, uint64_t skipped,
                                         std::string_view error) {
  flatbuffers::FlatBufferBuilder builder;
  flatbuffers::Offset<flatbuffers::String> text;
  if (!error.empty()) text = builder.CreateString(error.data(), error.size());
  const auto root = api::wire::CreateEndFeedRequest(builder, loader, batches, skipped, text);
  return {builder, root};
}

std::string TextOf(const flatbuffers::String* text) { return text == nullptr ? "" : text->str(); }

rpc::Outgoing<api::MeetRanks::Request> Meet(uint32_t rank, uint32_t ranks,
                                            const std::string& plan) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(plan);
  const auto root = api::wire::CreateMeetRanksRequest(builder, rank, ranks, text);
  return {builder, root};
}

rpc::Outgoing<api::MeetRanks::Response> Met(uint64_t run) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = api::wire::CreateMeetRanksResponse(builder, run);
  return {builder, root};
}

rpc::Outgoing<api::Exchange::Request> Part(uint64_t run, uint8_t channel, uint64_t number) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = api::wire::CreateExchangeRequest(builder, run, channel, number);
  return {builder, root, {}};
}

rpc::Outgoing<api::AwaitEnd::Request> AwaitEnd(uint64_t run) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = api::wire::CreateAwaitEndRequest(builder, run);
  return {builder, root};
}

rpc::Outgoing<api::AwaitEnd::Response> Ended(uint32_t code, const std::string& reason) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(reason);
  const auto root = api::wire::CreateAwaitEndResponse(builder, code, text);
  return {builder, root};
}

void RunRanks(Input input) {
  SeedReader reader(input);
  const auto which = reader.Value<uint8_t>();
  if (which == 0) {
    const Received<api::wire::MeetRanksRequest> message(reader.rest());
    if (message.table == nullptr) return;
    const auto& table = *message.table;
    const Received<api::wire::MeetRanksRequest> again(
        Meet(table.rank(), table.ranks(), TextOf(table.plan())));
    SIMURGH_CHECK_EQ(TextOf(again.table->plan()), TextOf(table.plan()));
  } else if (which == 1) {
    const Received<api::wire::MeetRanksResponse> message(reader.rest());
    if (message.table == nullptr) return;
    const Received<api::wire::MeetRanksResponse> again(Met(message.table->run()));
    SIMURGH_CHECK_EQ(again.table->run(), message.table->run());
  } else if (which == 2) {
    const Received<api::wire::ExchangeRequest> message(reader.rest());
    if (message.table == nullptr) return;
    const auto& table = *message.table;
    const Received<api::wire::ExchangeRequest> again(
        Part(table.run(), table.channel(), table.number()));
    SIMURGH_CHECK_EQ(again.table->channel(), table.channel());
    SIMURGH_CHECK_EQ(again.table->number(), table.number());
  } else if (which == 3) {
    const Received<api::wire::AwaitEndRequest> message(reader.rest());
    if (message.table == nullptr) return;
    const Received<api::wire::AwaitEndRequest> again(AwaitEnd(message.table->run()));
    SIMURGH_CHECK_EQ(again.table->run(), message.table->run());
  } else {
    const Received<api::wire::AwaitEndResponse> message(reader.rest());
    if (message.table == nullptr) return;
    const Received<api::wire::AwaitEndResponse> again(
        Ended(message.table->code(), TextOf(message.table->reason())));
    SIMURGH_CHECK_EQ(TextOf(again.table->reason()), TextOf(message.table->reason()));
  }
}

std::vector<Bytes> RankSeeds() {
  return {Seed(0, Meet(1, 3, "cluster.seed = 1\n")), Seed(1, Met(5)), Seed(2, Part(5, 1, 9)),
          Seed(3, AwaitEnd(5)), Seed(4, Ended(14, "rank 1 of 2 stopped"))};
}

// --- sums: precision and number of another rank's values, then these.

void RunSums(Input input) {
  SeedReader reader(input);
  const auto precision = static_cast<ReducePrecision>(reader.Value<uint8_t>() % 3);
  std::vector<float> values(reader.Value<uint16_t>() % 2'000);
  Bytes encoded = ToBytes(reader.rest());
  encoded.resize(EncodedSize(values.size(), precision));
  DecodeValues(encoded, precision, values);
  std::vector<float> sums(values.size());
  AddValues(encoded, precision, sums);
  for (size_t i = 0; i < sums.size(); ++i) SIMURGH_CHECK(SameFloat(sums[i], values[i]));
  const bool exact = precision != ReducePrecision::kInt8 &&
                     std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  if (!exact) return;
  Bytes again(encoded.size());
  EncodeValues(values, precision, {}, again);
  SIMURGH_CHECK(again == encoded);
}

std::vector<Bytes> SumsSeeds() {
  std::vector<float> values(700);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) - 40;
  std::vector<Bytes> seeds;
  for (const uint8_t code : {0, 1, 2}) {
    const auto precision = static_cast<ReducePrecision>(code);
    Bytes encoded(EncodedSize(values.size(), precision));
    EncodeValues(values, precision, {}, encoded);
    const auto count = static_cast<uint16_t>(values.size());
    seeds.push_back(SeedWriter().Value(code).Value(count).Rest(encoded).bytes());
  }
  return seeds;
}

rpc::Outgoing<api::SaveCheckpoint::Request> Ask(uint64_t request) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = api::wire::CreateSaveCheckpointRequest(builder, request);
  return {builder, root};
}

rpc::Outgoing<api::SaveCheckpoint::Response> Answer(uint64_t request, const std::string& folder,
                                                    uint64_t rows) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(folder);
  const auto root =
      api::wire::CreateSaveCheckpointResponse(builder, request, !folder.empty(), text, rows);
  return {builder, root};
}

void RunCheckpoint(Input input) {
  SeedReader reader(input);
  if (reader.Value<uint8_t>() == 0) {
    const Received<api::wire::SaveCheckpointRequest> message(reader.rest());
    if (message.table == nullptr) return;
    const Received<api::wire::SaveCheckpointRequest> again(Ask(message.table->request()));
    SIMURGH_CHECK_EQ(again.table->request(), message.table->request());
  } else {
    const Received<api::wire::SaveCheckpointResponse> message(reader.rest());
    if (message.table == nullptr) return;
    const auto& table = *message.table;
    const Received<api::wire::SaveCheckpointResponse> again(
        Answer(table.request(), TextOf(table.folder()), table.rows()));
    SIMURGH_CHECK_EQ(TextOf(again.table->folder()), TextOf(table.folder()));
    SIMURGH_CHECK_EQ(again.table->rows(), table.rows());
  }
}

std::vector<Bytes> CheckpointSeeds() {
  return {Seed(0, Ask(0)), Seed(0, Ask(3)), Seed(1, Answer(3, "", 5)),
          Seed(1, Answer(3, "/model/step-7", 5))};
}

void RunFeed(Input input) {
  SeedReader reader(input);
  const auto which = reader.Value<uint8_t>();
  if (which == 0) {
    const Received<api::wire::OpenFeedRequest> message(reader.rest());
    if (message.table == nullptr) return;
    const auto& table = *message.table;
    const Received<api::wire::OpenFeedRequest> again(api::EncodeOpen(
        table.loader(), table.loaders(), table.rank(), table.ranks(), TextOf(table.input())));
    SIMURGH_CHECK_EQ(TextOf(again.table->input()), TextOf(table.input()));
    SIMURGH_CHECK_EQ(again.table->ranks(), table.ranks());
  } else if (which == 1) {
    const Received<api::wire::OpenFeedResponse> message(reader.rest());
    if (message.table == nullptr) return;
    const std::string text = TextOf(message.table->position());
    const Received<api::wire::OpenFeedResponse> again(Taken(message.table->taken(), text));
    SIMURGH_CHECK_EQ(again.table->taken(), message.table->taken());
    const auto offsets = OffsetsFromText(text);
    SIMURGH_CHECK(!offsets.ok() || OffsetsFromText(OffsetsText(*offsets)).value() == *offsets);
    const auto position = DataPosition::FromText(text);
    if (!position.ok()) return;
    SIMURGH_CHECK(DataPosition::FromText(position->ToText()).value() == *position);
    SIMURGH_CHECK(position->first() <= position->ContinueWith({.shares = 3}).next(2));
  } else if (which == 2) {
    const Received<api::wire::FeedBatchRequest> message(reader.rest());
    if (message.table == nullptr) return;
    const auto& table = *message.table;
    api::FedBatch batch;
    batch.progress = api::DecodeProgress(table);
    const Received<api::wire::FeedBatchRequest> again(
        api::EncodeFeed(table.loader(), table.number(), table.skipped(),
                        std::make_shared<const api::FedBatch>(batch)));
    SIMURGH_CHECK(api::DecodeProgress(*again.table).next == batch.progress.next);
    SIMURGH_CHECK_EQ(api::DecodeProgress(*again.table).rows, batch.progress.rows);
    SIMURGH_CHECK(api::DecodeProgress(*again.table).place == batch.progress.place);
    SIMURGH_CHECK_EQ(again.table->number(), table.number());
    SIMURGH_CHECK_EQ(again.table->skipped(), table.skipped());
  } else if (which == 3) {
    const Received<api::wire::FeedBatchResponse> message(reader.rest());
    if (message.table == nullptr) return;
    const Received<api::wire::FeedBatchResponse> again(Wanted(message.table->wanted()));
    SIMURGH_CHECK_EQ(again.table->wanted(), message.table->wanted());
  } else {
    const Received<api::wire::EndFeedRequest> message(reader.rest());
    if (message.table == nullptr) return;
    const auto& table = *message.table;
    const std::string error = TextOf(table.error());
    const Received<api::wire::EndFeedRequest> again(
        End(table.loader(), table.batches(), table.skipped(), error));
    SIMURGH_CHECK_EQ(TextOf(again.table->error()), error);
  }
}

std::vector<Bytes> LoaderSeeds() {
  return {Seed(0, api::EncodeOpen(1, 2, 0, 1, "")),
          Seed(0, api::EncodeOpen(1, 2, 2, 3, "data.format = csv\ntraining.epochs = 9\n")),
          Seed(1, Taken(5, DataPosition().ToText())),
          Seed(2, api::EncodeFeed(1, 3, 2, std::make_shared<const api::FedBatch>())),
          Seed(3, Wanted(true)),
          Seed(4, End(1, 9, 2, "")),
          Seed(4, End(0, 3, 0, "rows.csv:7: 'forty'"))};
}

}  // namespace

std::vector<Target> LoaderTargets() {
  return {{"feed", RunFeed, LoaderSeeds},
          {"feed_batch", RunFeedBatch, FeedBatchSeeds},
          {"ranks", RunRanks, RankSeeds},
          {"sums", RunSums, SumsSeeds},
          {"save_checkpoint", RunCheckpoint, CheckpointSeeds}};
}

}  // namespace simurgh::fuzz
