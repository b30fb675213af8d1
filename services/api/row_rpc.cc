#include "services/api/row_rpc.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/peer_clients.h"

namespace simurgh::api {
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

constexpr uint64_t kMaxIds = kMaxBatchOccurrences;

// learning_rates: one per group, or empty.
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

// least: the lowest table that the group may have.
Status CheckGroup(const ParsedRows::Group& group, uint32_t least, const RowShape& shape) {
  const auto refuse = [&group](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("rows: table ", group.table, why...));
  };
  if (group.table >= shape.dims.size()) {
    return refuse(" is out of range, there are ", shape.dims.size());
  }
  if (group.table < least) {
    return refuse(" follows table ", least - 1, "; list each table once, in ascending order");
  }
  if (group.dim != shape.dims[group.table]) {
    return refuse(" has dim ", shape.dims[group.table], ", the request has ", group.dim);
  }
  if (group.precision > static_cast<uint8_t>(RowPrecision::kF16)) {
    return refuse(": precision ", group.precision,
                  " is unknown; use the same version for all daemons");
  }
  if (!std::isfinite(group.learning_rate) || group.learning_rate < 0) {
    return refuse(": learning rate ", group.learning_rate,
                  " is out of range; use a finite number >= 0");
  }
  if (group.counts.size() == shape.partitions) return absl::OkStatus();
  return refuse(": its ids are grouped by ", group.counts.size(), " partitions, this server has ",
                shape.partitions,
                "; use the same embedding_ps.partitions for all daemons and restart the caller");
}

}  // namespace

rpc::Outgoing<PullRows::Request> Encode(const PullRowsCall& call, uint64_t map_version) {
  flatbuffers::FlatBufferBuilder builder;
  const auto step_id = Encode(builder, call.step_id);
  const auto groups = Encode(builder, call.groups, {});
  const auto root = wire::CreatePullRowsRequest(
      builder, map_version, static_cast<uint8_t>(call.mode), step_id,
      call.needed.acknowledged_steps, groups, call.needed.awaited_steps);
  return {builder, root, {call.ids, call.owner}};
}

rpc::Outgoing<PushRows::Request> Encode(const PushRowsCall& call, uint64_t map_version) {
  flatbuffers::FlatBufferBuilder builder;
  const auto step_id = Encode(builder, call.step_id);
  const auto groups = Encode(builder, call.groups, call.learning_rates);
  const auto root = wire::CreatePushRowsRequest(builder, map_version, step_id, groups);
  return {builder, root, {call.ids, call.owner}, {call.gradients, call.owner}};
}

rpc::Outgoing<ReadRowsAhead::Request> Encode(const ReadRowsAheadCall& call, uint64_t map_version) {
  flatbuffers::FlatBufferBuilder builder;
  const auto groups = Encode(builder, call.groups, {});
  return {builder,
          wire::CreateReadRowsAheadRequest(builder, map_version, groups),
          {call.ids, call.owner}};
}

StatusOr<ParsedRows> ParsedRows::Parse(const GroupVector& groups, const RowShape& shape) {
  std::vector<Group> views;
  for (const wire::RowGroup* group : groups) {
    const std::span<const uint32_t> none;
    views.push_back({group->table_index(), group->dim(),
                     group->counts() == nullptr
                         ? none
                         : std::span(group->counts()->data(), group->counts()->size()),
                     group->precision(), group->learning_rate()});
  }
  return Parse(views, shape);
}

StatusOr<ParsedRows> ParsedRows::Parse(std::span<const RowGroup> groups,
                                       std::span<const float> learning_rates,
                                       const RowShape& shape) {
  std::vector<Group> views;
  for (size_t i = 0; i < groups.size(); ++i) {
    views.push_back({groups[i].table, groups[i].dim, groups[i].counts,
                     static_cast<uint8_t>(groups[i].precision),
                     learning_rates.empty() ? 0 : learning_rates[i]});
  }
  return Parse(views, shape);
}

StatusOr<ParsedRows> ParsedRows::Parse(std::span<const Group> groups, const RowShape& shape) {
  ParsedRows rows;
  uint32_t least = 0;
  for (const Group& group : groups) {
    SIMURGH_RETURN_IF_ERROR(CheckGroup(group, least, shape));
    least = group.table + 1;
    RowRun run{.table = group.table,
               .dim = group.dim,
               .precision = static_cast<RowPrecision>(group.precision),
               .learning_rate = group.learning_rate,
               .first_id = rows.payload_.ids,
               .first_byte = rows.payload_.bytes};
    for (; run.partition < shape.partitions; ++run.partition) {
      run.count = group.counts[run.partition];
      if (run.count > 0) rows.runs_.push_back(run);
      run.first_id += run.count;
      run.first_byte += run.count * run.dim * SizeOf(run.precision);
      if (run.first_id <= kMaxIds) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("rows: the request has more than ", kMaxIds, " ids"));
    }
    rows.payload_ = {.ids = run.first_id, .bytes = PaddedRowBytes(run.first_byte)};
  }
  return rows;
}

Status ParsedRows::CheckLengths(uint64_t ids, uint64_t bytes) const {
  if (ids == payload_.ids && bytes == payload_.bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "rows: the request has ", ids, " ids and ", bytes,
      " bytes of rows or gradients, its groups describe ", payload_.ids, " and ", payload_.bytes));
}

Status CheckPushOrder(const StepId& step_id) {
  if (step_id.order == PushOrder::kUnordered ||
      (step_id.order <= PushOrder::kSum && step_id.ranks <= kMaxRanks &&
       step_id.rank < step_id.ranks)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("rows: rank ", step_id.rank, " of ", step_id.ranks, " with push order ",
                   static_cast<int>(step_id.order), " is out of range; use up to ", kMaxRanks,
                   " ranks and orders up to ", static_cast<int>(PushOrder::kSum)));
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
  const auto evicted = builder.CreateVector(progress.evicted);
  return {builder,
          wire::CreateSaveRowsResponse(builder, progress.done, progress.rows, progress.all_rows,
                                       all_files, progress.bytes, evicted)};
}

SaveProgress Decode(const wire::SaveRowsResponse& response) {
  SaveProgress progress{.done = response.done(),
                        .rows = response.rows(),
                        .all_rows = response.all_rows(),
                        .bytes = response.bytes()};
  if (const auto* evicted = response.evicted(); evicted != nullptr && evicted->size() > 0) {
    // Copied as bytes: the verifier lets the words of a forged vector lie unaligned.
    progress.evicted.resize(evicted->size());
    std::memcpy(progress.evicted.data(), evicted->Data(), evicted->size() * sizeof(uint64_t));
  }
  if (response.files() == nullptr) return progress;
  for (const auto* file : *response.files()) {
    progress.files.push_back({file->path()->str(), file->bytes(), file->hash()});
  }
  return progress;
}

}  // namespace simurgh::api

namespace simurgh {

RowClient::RowClient(std::string name, std::unique_ptr<PeerClients> clients, uint64_t map_version)
    : name_(std::move(name)), clients_(std::move(clients)), map_version_(map_version) {}

rpc::awaitable<StatusOr<PullReport>> RowClient::Pull(PullRowsCall call, rpc::CallOptions options) {
  auto request = api::Encode(call, map_version_);
  const bool awaits = call.needed.awaited_steps > 0;
  const auto client = awaits ? clients_->dedicated() : clients_->shared();
  const api::PullRows& method = awaits ? api::kAwaitRows : api::kPullRows;
  const auto response = co_await rpc::Call(*client, method, std::move(request),
                                           {{call.rows, call.owner}}, api::Patient(options));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::Decode(response->table());
}

rpc::awaitable<StatusOr<PushReport>> RowClient::Push(PushRowsCall call, rpc::CallOptions options) {
  auto request = api::Encode(call, map_version_);
  const auto client = call.step_id.waits_for_ranks() ? clients_->dedicated() : clients_->shared();
  const auto response =
      co_await rpc::Call(*client, api::kPushRows, std::move(request), api::Patient(options));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::Decode(response->table());
}

rpc::awaitable<Status> RowClient::ReadAhead(ReadRowsAheadCall call, rpc::CallOptions options) {
  const auto client = clients_->shared();
  const auto response =
      co_await rpc::Call(*client, api::kReadRowsAhead, api::Encode(call, map_version_), options);
  co_return Annotate(response.status(), name_);
}

rpc::awaitable<Status> RowClient::EndRun(StepId step_id, rpc::CallOptions options) {
  const auto client = clients_->shared();
  const auto response =
      co_await rpc::Call(*client, api::kEndRun, api::EncodeEndRun(step_id), options);
  co_return Annotate(response.status(), name_);
}

template <typename Method, typename Call>
rpc::awaitable<StatusOr<SaveProgress>> RowClient::CallFor(const Method& method, Call call,
                                                          rpc::CallOptions options) {
  const auto client = clients_->shared();
  const auto response =
      co_await rpc::Call(*client, method, api::Encode(call), api::Patient(options));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::Decode(response->table());
}

rpc::awaitable<StatusOr<SaveProgress>> RowClient::SaveRows(SaveRowsCall call,
                                                           rpc::CallOptions options) {
  return CallFor(api::kSaveRows, std::move(call), options);
}

rpc::awaitable<StatusOr<SaveProgress>> RowClient::RestoreRows(RestoreRowsCall call,
                                                              rpc::CallOptions options) {
  return CallFor(api::kRestoreRows, std::move(call), options);
}

}  // namespace simurgh
