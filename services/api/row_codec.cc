#include "services/api/row_codec.h"

#include "absl/strings/str_cat.h"

namespace simurgh::api {

RowPayload PayloadOf(const RowGroup& group) {
  uint64_t ids = 0;
  for (const uint32_t count : group.counts) ids += count;
  constexpr uint64_t kAlignment = sizeof(float);
  const uint64_t bytes = ids * group.dim * SizeOf(group.precision);
  return {.ids = ids, .bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment};
}

RowPayload PayloadOf(std::span<const RowGroup> groups) {
  RowPayload payload;
  for (const RowGroup& group : groups) {
    const RowPayload one = PayloadOf(group);
    payload.ids += one.ids;
    payload.bytes += one.bytes;
  }
  return payload;
}

Status CheckLength(const char* what, uint64_t given, uint64_t described) {
  if (given == described) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rows: the request has ", given, " ", what,
                                                 ", its groups describe ", described));
}

flatbuffers::Offset<wire::StepId> Encode(flatbuffers::FlatBufferBuilder& builder,
                                         const StepId& step_id) {
  return wire::CreateStepId(builder, step_id.run, step_id.rank, step_id.step, step_id.ranks,
                            static_cast<uint8_t>(step_id.order));
}

StepId Decode(const wire::StepId& step_id) {
  return {.run = step_id.run(),
          .rank = step_id.rank(),
          .step = step_id.step(),
          .ranks = step_id.ranks(),
          .order = static_cast<PushOrder>(step_id.order())};
}

rpc::Outgoing<EndRun::Request> EncodeEndRun(const StepId& step_id) {
  flatbuffers::FlatBufferBuilder builder;
  const auto encoded = Encode(builder, step_id);
  return {builder, wire::CreateEndRunRequest(builder, encoded)};
}

StatusOr<LookupMode> DecodeLookupMode(const char* what, uint8_t mode) {
  if (mode > static_cast<uint8_t>(LookupMode::kEvaluate)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": mode: ", mode, " is unknown; use 0 or 1"));
  }
  return static_cast<LookupMode>(mode);
}

namespace {

constexpr uint32_t kMaxDim = 1'024;
constexpr uint64_t kMaxIds = kMaxBatchOccurrences;

// learning_rates: by group, or empty.
flatbuffers::Offset<GroupVector> Encode(flatbuffers::FlatBufferBuilder& builder,
                                        std::span<const RowGroup> groups,
                                        std::span<const float> learning_rates) {
  std::vector<flatbuffers::Offset<wire::RowGroup>> encoded;
  encoded.reserve(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto counts = builder.CreateVector(groups[i].counts);
    encoded.push_back(wire::CreateRowGroup(builder, groups[i].table, groups[i].dim, counts,
                                           learning_rates.empty() ? 0.0F : learning_rates[i],
                                           static_cast<uint8_t>(groups[i].precision)));
  }
  return builder.CreateVector(encoded);
}

// previous: null for the first group.
Status CheckGroup(const wire::RowGroup& group, const wire::RowGroup* previous,
                  uint32_t partitions) {
  const uint32_t table = group.table_index();
  if (previous != nullptr && table <= previous->table_index()) {
    return absl::InvalidArgumentError(absl::StrCat("rows: table ", table, " follows table ",
                                                   previous->table_index(),
                                                   "; list each table once, in ascending order"));
  }
  if (group.dim() < 1 || group.dim() > kMaxDim) {
    return absl::InvalidArgumentError(absl::StrCat("rows: dim ", group.dim(), " of table ", table,
                                                   " is out of range; use 1 to ", kMaxDim));
  }
  if (group.precision() > static_cast<uint8_t>(RowPrecision::kF16)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows: precision ", group.precision(), " of table ", table,
                     " is unknown; use the same version for all daemons"));
  }
  const size_t counts = group.counts() == nullptr ? 0 : group.counts()->size();
  if (counts == partitions) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "rows: the ids of table ", table, " are grouped by ", counts, " partitions, this server has ",
      partitions, "; use the same embedding_ps.partitions for all daemons and restart the caller"));
}

}  // namespace

rpc::Outgoing<PullRows::Request> Encode(const PullRowsCall& call, uint64_t map_version) {
  flatbuffers::FlatBufferBuilder builder;
  const auto step_id = Encode(builder, call.step_id);
  const auto groups = Encode(builder, call.groups, {});
  const auto root =
      wire::CreatePullRowsRequest(builder, map_version, static_cast<uint8_t>(call.mode), step_id,
                                  call.acknowledged_steps, groups);
  return {builder, root, {call.ids, call.owner}};
}

rpc::Outgoing<PushRows::Request> Encode(const PushRowsCall& call, uint64_t map_version) {
  flatbuffers::FlatBufferBuilder builder;
  const auto step_id = Encode(builder, call.step_id);
  const auto groups = Encode(builder, call.groups, call.learning_rates);
  const auto root = wire::CreatePushRowsRequest(builder, map_version, step_id, groups);
  return {builder, root, {call.ids, call.owner}, {call.gradients, call.owner}};
}

StatusOr<std::vector<RowGroup>> DecodeGroups(const GroupVector& groups, uint32_t partitions) {
  std::vector<RowGroup> decoded;
  decoded.reserve(groups.size());
  uint64_t ids = 0;
  const wire::RowGroup* previous = nullptr;
  for (const wire::RowGroup* group : groups) {
    SIMURGH_RETURN_IF_ERROR(CheckGroup(*group, previous, partitions));
    previous = group;
    decoded.push_back({.table = group->table_index(),
                       .dim = group->dim(),
                       .counts = {group->counts()->begin(), group->counts()->end()},
                       .precision = static_cast<RowPrecision>(group->precision())});
    for (const uint32_t count : *group->counts()) ids += count;
    if (ids > kMaxIds) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows: the request has more than ", kMaxIds, " ids"));
    }
  }
  return decoded;
}

rpc::Outgoing<PullRows::Response> Encode(const PullReport& report,
                                         rpc::SegmentSource<std::byte> rows) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = wire::CreatePullRowsResponse(
      builder, report.found, report.created, report.unseen, report.rejected_admission,
      report.rejected_full, report.evicted, report.evicted_for_space);
  return {builder, root, std::move(rows)};
}

rpc::Outgoing<PushRows::Response> Encode(const PushReport& report) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root =
      wire::CreatePushRowsResponse(builder, report.repeated, report.updated, report.missing);
  return {builder, root};
}

PullReport Decode(const wire::PullRowsResponse& response) {
  return {.found = response.found(),
          .created = response.created(),
          .unseen = response.unseen(),
          .rejected_admission = response.rejected_admission(),
          .rejected_full = response.rejected_full(),
          .evicted = response.evicted(),
          .evicted_for_space = response.evicted_for_space()};
}

PushReport Decode(const wire::PushRowsResponse& response) {
  return {.repeated = response.repeated(),
          .updated = response.updated(),
          .missing = response.missing()};
}

rpc::Outgoing<SaveRows::Request> Encode(const SaveRowsCall& call) {
  flatbuffers::FlatBufferBuilder builder;
  const auto folder = builder.CreateString(call.folder);
  const auto parent = builder.CreateString(call.parent);
  const auto directory = builder.CreateString(call.directory);
  return {builder, wire::CreateSaveRowsRequest(builder, call.run, folder, call.server, call.probe,
                                               parent, directory, call.continues)};
}

SaveRowsCall Decode(const wire::SaveRowsRequest& request) {
  return {.run = request.run(),
          .folder = request.folder()->str(),
          .server = request.server(),
          .probe = request.probe(),
          .parent = request.parent() == nullptr ? "" : request.parent()->str(),
          .directory = request.directory() == nullptr ? "" : request.directory()->str(),
          .continues = request.continues()};
}

rpc::Outgoing<RestoreRows::Request> Encode(const RestoreRowsCall& call) {
  flatbuffers::FlatBufferBuilder builder;
  const auto model = builder.CreateString(call.model);
  return {builder, wire::CreateRestoreRowsRequest(builder, call.run, call.ranks, model, call.step,
                                                  call.server, call.load)};
}

RestoreRowsCall Decode(const wire::RestoreRowsRequest& request) {
  return {.run = request.run(),
          .ranks = request.ranks(),
          .model = request.model()->str(),
          .step = request.step(),
          .server = request.server(),
          .load = request.load()};
}

rpc::Outgoing<SaveRows::Response> Encode(const SaveProgress& progress) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::SavedFile>> files;
  for (const ModelFile& file : progress.files) {
    const auto path = builder.CreateString(file.path);
    files.push_back(wire::CreateSavedFile(builder, path, file.bytes, file.hash));
  }
  const auto all_files = builder.CreateVector(files);
  return {builder, wire::CreateSaveRowsResponse(builder, progress.done, progress.rows,
                                                progress.all_rows, all_files, progress.bytes)};
}

SaveProgress Decode(const wire::SaveRowsResponse& response) {
  SaveProgress progress{.done = response.done(),
                        .rows = response.rows(),
                        .all_rows = response.all_rows(),
                        .bytes = response.bytes()};
  if (response.files() == nullptr) return progress;
  for (const auto* file : *response.files()) {
    progress.files.push_back({file->path()->str(), file->bytes(), file->hash()});
  }
  return progress;
}

}  // namespace simurgh::api
