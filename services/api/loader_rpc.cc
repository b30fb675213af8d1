#include "services/api/loader_rpc.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace simurgh::api {
namespace {

Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("feed batch: ", what));
}

Status CheckSamples(size_t samples, uint32_t max) {
  if (samples > 0 && samples <= max) return absl::OkStatus();
  return Bad(
      absl::StrCat(samples, " samples are out of range; use 1 to ", max, " (training.batch_size)"));
}

Status CheckDense(const DenseBatch& dense, const std::vector<TaskConfig>& tasks) {
  for (size_t i = 0; i < dense.batch_size * dense.tasks; ++i) {
    const float label = dense.labels[i];
    if (dense.tasks > 1 && std::isnan(label)) continue;  // The label is unknown.
    const LossConfig::Kind loss = tasks[i % tasks.size()].loss.kind;
    if (IsRegression(loss)) {
      const bool is_count = TakesCounts(loss);
      if (std::isfinite(label) && (!is_count || label >= 0)) continue;
      return Bad(absl::StrCat("label ", label, " is out of range; use ",
                              is_count ? "finite values of at least 0" : "finite values"));
    }
    if (label != 0.0F && label != 1.0F) {
      return Bad(absl::StrCat("label ", label, " is out of range; use 0 or 1"));
    }
  }
  for (const float weight : dense.weights()) {
    if (std::isfinite(weight) && weight >= 0) continue;
    return Bad(
        absl::StrCat("weight ", weight, " is out of range; use finite values of at least 0"));
  }
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::all_of(dense.values.begin(), dense.values.end(), finite)) {
    return Bad("a dense value is not finite; use finite values");
  }
  return absl::OkStatus();
}

// Requires: `sparse` has features.size() features.
Status CheckSparse(const CompactBatch& sparse, const DenseBatch& dense,
                   const std::vector<FeatureConfig>& features) {
  if (sparse.batch_size != dense.batch_size) {
    return Bad(
        absl::StrCat("ids of ", sparse.batch_size, " samples and labels of ", dense.batch_size));
  }
  std::vector<std::optional<uint32_t>> table_of(sparse.list_count());
  for (size_t f = 0; f < features.size(); ++f) {
    std::optional<uint32_t>& table = table_of[sparse.list_of(f)];
    if (table.has_value() && *table != features[f].table_index) {
      return Bad(absl::StrCat("feature '", features[f].name,
                              "' shares a list with a feature of another table"));
    }
    table = features[f].table_index;
  }
  return absl::OkStatus();
}

template <typename T>
rpc::SegmentDestination<T> Allocate(std::vector<T>& values, uint64_t count,
                                    const std::shared_ptr<void>& owner) {
  values.resize(count);
  return {values, owner};
}

}  // namespace

rpc::Outgoing<OpenFeed::Request> EncodeOpen(uint32_t loader, uint32_t loaders, uint32_t rank,
                                            uint32_t ranks, const std::string& input) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(input);
  const auto root = wire::CreateOpenFeedRequest(builder, loader, loaders, text, rank, ranks);
  return {builder, root};
}

rpc::Outgoing<FeedBatch::Request> EncodeFeed(uint32_t loader, uint64_t number, uint64_t skipped,
                                             const std::shared_ptr<const FedBatch>& batch,
                                             uint64_t session) {
  flatbuffers::FlatBufferBuilder builder;
  const ShareProgress& with = batch->progress;
  const wire::Progress progress(with.next.row, with.next.epoch, with.files);
  const std::array<uint64_t, 4>& at = with.place.at;
  const wire::Place place(with.place.row, with.place.file, at[0], at[1], at[2], at[3]);
  std::vector<flatbuffers::Offset<wire::StreamOffset>> offsets;
  for (const auto& [partition, next] : with.offsets) {
    offsets.push_back(
        wire::CreateStreamOffset(builder, builder.CreateString(partition), next.offset, next.row));
  }
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<wire::StreamOffset>>> all;
  if (!offsets.empty()) all = builder.CreateVector(offsets);
  const auto root =
      wire::CreateFeedBatchRequest(builder, loader, number, skipped, &progress, with.rows, &place,
                                   all, batch->idle, session, with.place.window);
  return {builder,
          root,
          {batch->sparse.plain_ids, batch},
          {batch->sparse.codes, batch},
          {batch->dense.values, batch},
          {batch->dense.labels, batch}};
}

ShareProgress DecodeProgress(const wire::FeedBatchRequest& request) {
  const wire::Progress* const progress = request.progress();
  if (progress == nullptr) return {.share = request.loader()};
  ReadPlace place;
  if (const wire::Place* const sent = request.place(); sent != nullptr) {
    place = {.row = sent->row(),
             .file = sent->file(),
             .at = {sent->at0(), sent->at1(), sent->at2(), sent->at3()},
             .window = request.window()};
  }
  ShareProgress decoded{.share = request.loader(),
                        .files = progress->files(),
                        .next = {progress->epoch(), progress->row()},
                        .rows = request.rows(),
                        .place = place};
  if (request.offsets() == nullptr) return decoded;
  for (const wire::StreamOffset* const one : *request.offsets()) {
    // OffsetsText() cannot write other names.
    if (one->partition() == nullptr || !IsPartitionName(one->partition()->string_view())) continue;
    decoded.offsets[one->partition()->str()] = {one->next(), one->row()};
  }
  return decoded;
}

StatusOr<PlacedFeed> PlaceFeed(const FeedBatch::Request::Counts& counts, size_t dense_width,
                               size_t tasks, bool is_weighted) {
  const auto [plain_ids, codes, dense, labels] = counts;
  const uint64_t per_sample = tasks + (is_weighted ? 1 : 0);
  const uint64_t samples = labels / per_sample;
  if (plain_ids > kMaxBatchOccurrences || codes > kMaxBatchCodeBytes ||
      samples > kMaxBatchSamples || labels != samples * per_sample ||
      dense != samples * dense_width) {
    return Bad(absl::StrCat("segments of ", plain_ids, " ids, ", codes, " bytes, ", dense,
                            " dense values and ", labels, " labels are out of range; use at most ",
                            kMaxBatchOccurrences, " ids and ", kMaxBatchSamples, " samples of ",
                            dense_width, " dense values and ", tasks, " labels",
                            is_weighted ? " and a weight" : ""));
  }
  auto batch = std::make_shared<FedBatch>();
  batch->dense.batch_size = samples;
  batch->dense.tasks = tasks;
  batch->dense.width = dense_width;
  return PlacedFeed{
      {Allocate(batch->sparse.plain_ids, plain_ids, batch),
       Allocate(batch->sparse.codes, codes, batch), Allocate(batch->dense.values, dense, batch),
       Allocate(batch->dense.labels, labels, batch)},
      batch};
}

StatusOr<size_t> FeedBytes(const FedBatch& fed, const ClusterConfig& config) {
  SIMURGH_RETURN_IF_ERROR(CheckSamples(fed.dense.batch_size, config.training.batch_size));
  const size_t features = config.features.size();
  SIMURGH_ASSIGN_OR_RETURN(const BatchSizes sizes, DecodedSizes(fed.sparse, features));
  if (sizes.offsets != features * fed.dense.batch_size + 1) {
    return Bad(absl::StrCat("ids of ", (sizes.offsets - 1) / features, " samples and labels of ",
                            fed.dense.batch_size));
  }
  return sizes.bytes() + (fed.dense.values.size() + fed.dense.labels.size()) * sizeof(float);
}

StatusOr<Batch> DecodeFeed(FedBatch& fed, const ClusterConfig& config) {
  SIMURGH_RETURN_IF_ERROR(CheckSamples(fed.dense.batch_size, config.training.batch_size));
  SIMURGH_RETURN_IF_ERROR(CheckDense(fed.dense, TasksOf(config.model)));
  SIMURGH_ASSIGN_OR_RETURN(CompactBatch sparse,
                           DecodeBatch(std::move(fed.sparse), config.features.size()));
  SIMURGH_RETURN_IF_ERROR(CheckSparse(sparse, fed.dense, config.features));
  return Batch{.sparse = std::make_shared<const CompactBatch>(std::move(sparse)),
               .dense = std::move(fed.dense)};
}

}  // namespace simurgh::api
