// The messages between embedding workers and parameter servers.

#include <cmath>

#include "base/check.h"
#include "services/api/row_rpc.h"
#include "tests/fuzz/schema.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

constexpr uint64_t kMaxIds = 10'000'000;

const api::RowShape& Shape() {
  static const api::RowShape shape{.dims = {1'024, 1, 3, 8, 16}, .partitions = 2};
  return shape;
}

// Properties of a parsed request that a server relies on.
void CheckRows(const api::ParsedRows& rows) {
  uint64_t ids = 0;
  uint64_t bytes = 0;
  const api::RowRun* previous = nullptr;
  for (const api::RowRun& run : rows.runs()) {
    SIMURGH_CHECK_LT(run.partition, Shape().partitions);
    SIMURGH_CHECK_LT(run.table, Shape().dims.size());
    SIMURGH_CHECK_EQ(run.dim, Shape().dims[run.table]);
    SIMURGH_CHECK(run.precision <= RowPrecision::kF16);
    SIMURGH_CHECK(run.learning_rate >= 0 && std::isfinite(run.learning_rate));
    SIMURGH_CHECK_LT(0U, run.count);
    SIMURGH_CHECK(previous == nullptr || previous->table < run.table ||
                  (previous->table == run.table && previous->partition < run.partition));
    // A table's rows begin at a multiple of 4 bytes.
    if (previous != nullptr && previous->table < run.table) bytes = (bytes + 3) / 4 * 4;
    SIMURGH_CHECK_EQ(run.first_id, ids);
    SIMURGH_CHECK_EQ(run.first_byte, bytes);
    ids += run.count;
    bytes += run.count * run.dim * (run.precision == RowPrecision::kF32 ? 4 : 2);
    previous = &run;
  }
  SIMURGH_CHECK_EQ(rows.payload().ids, ids);
  SIMURGH_CHECK_EQ(rows.payload().bytes, (bytes + 3) / 4 * 4);
  SIMURGH_CHECK_LE(ids, kMaxIds);
}

// The groups of a valid request.
struct Groups {
  explicit Groups(const api::GroupVector& from) {
    for (const auto* group : from) {
      groups.push_back({.table = group->table_index(),
                        .dim = group->dim(),
                        .counts = {group->counts()->begin(), group->counts()->end()},
                        .precision = static_cast<RowPrecision>(group->precision())});
      rates.push_back(group->learning_rate());
    }
  }

  std::vector<RowGroup> groups;
  std::vector<float> rates;
};

void RunPullRows(Input input) {
  const Received<api::wire::PullRowsRequest> request(input);
  if (request.table == nullptr) return;
  const auto mode = api::DecodeLookupMode("pull", request.table->mode());
  const auto rows = api::ParsedRows::Parse(*request.table->groups(), Shape());
  if (IsRefusal(mode.status()) || IsRefusal(rows.status())) return;
  CheckRows(*rows);
  const Groups groups(*request.table->groups());
  const PullRowsCall call{.mode = *mode,
                          .step_id = api::Decode(*request.table->step_id()),
                          .needed = {.acknowledged_steps = request.table->acknowledged_steps(),
                                     .awaited_steps = request.table->awaited_steps()},
                          .groups = groups.groups};
  const uint64_t map_version = request.table->map_version();
  const Received<api::wire::PullRowsRequest> again(api::Encode(call, map_version));
  SIMURGH_CHECK(api::DecodeLookupMode("pull", again.table->mode()).value() == call.mode);
  SIMURGH_CHECK(Same(api::Decode(*again.table->step_id()), call.step_id));
  SIMURGH_CHECK_EQ(again.table->acknowledged_steps(), call.needed.acknowledged_steps);
  SIMURGH_CHECK_EQ(again.table->awaited_steps(), call.needed.awaited_steps);
  SIMURGH_CHECK_EQ(again.table->map_version(), map_version);
  const auto own = api::ParsedRows::Parse(groups.groups, groups.rates, Shape());
  SIMURGH_CHECK(own.value().runs() == rows->runs());
  SIMURGH_CHECK(api::ParsedRows::Parse(*again.table->groups(), Shape()).ok());
}

void RunPushRows(Input input) {
  const Received<api::wire::PushRowsRequest> request(input);
  if (request.table == nullptr) return;
  const auto rows = api::ParsedRows::Parse(*request.table->groups(), Shape());
  const StepId step_id = api::Decode(*request.table->step_id());
  if (IsRefusal(rows.status())) return;
  CheckRows(*rows);
  if (!IsRefusal(api::CheckPushOrder(step_id)) && step_id.waits_for_ranks()) {
    SIMURGH_CHECK_LT(step_id.rank, step_id.ranks);
    SIMURGH_CHECK_LE(step_id.ranks, 256U);
  }
  const Groups groups(*request.table->groups());
  const PushRowsCall call{
      .step_id = step_id, .groups = groups.groups, .learning_rates = groups.rates};
  const Received<api::wire::PushRowsRequest> again(api::Encode(call, request.table->map_version()));
  SIMURGH_CHECK(Same(api::Decode(*again.table->step_id()), call.step_id));
  const auto second = api::ParsedRows::Parse(*again.table->groups(), Shape());
  SIMURGH_CHECK(second.value().runs() == rows->runs());
  const auto own = api::ParsedRows::Parse(groups.groups, groups.rates, Shape());
  SIMURGH_CHECK(own.value().runs() == rows->runs());
}

const std::vector<RowGroup>& SomeGroups() {
  static const std::vector<RowGroup> groups{
      {0, 1'024, {7, 9}}, {3, 8, {2, 1}, RowPrecision::kBf16}, {4, 16, {0, 5}}};
  return groups;
}

std::vector<Bytes> PullRowsSeeds() {
  PullRowsCall call{.mode = LookupMode::kEvaluate,
                    .step_id = {.run = 5, .rank = 1, .step = 77},
                    .needed = {.acknowledged_steps = 70},
                    .groups = SomeGroups()};
  std::vector<Bytes> seeds{MetadataOf(api::Encode(call, 9))};
  call.groups = {};
  seeds.push_back(MetadataOf(api::Encode(call, 0)));
  return seeds;
}

void RunReadRowsAhead(Input input) {
  const Received<api::wire::ReadRowsAheadRequest> request(input);
  if (request.table == nullptr) return;
  const auto rows = api::ParsedRows::Parse(*request.table->groups(), Shape());
  if (IsRefusal(rows.status())) return;
  CheckRows(*rows);
  const Groups groups(*request.table->groups());
  const uint64_t map_version = request.table->map_version();
  const Received<api::wire::ReadRowsAheadRequest> again(
      api::Encode(ReadRowsAheadCall{.groups = groups.groups}, map_version));
  SIMURGH_CHECK_EQ(again.table->map_version(), map_version);
  SIMURGH_CHECK(api::ParsedRows::Parse(*again.table->groups(), Shape()).ok());
}

std::vector<Bytes> ReadRowsAheadSeeds() {
  ReadRowsAheadCall call{.groups = SomeGroups()};
  std::vector<Bytes> seeds{MetadataOf(api::Encode(call, 9))};
  call.groups = {};
  seeds.push_back(MetadataOf(api::Encode(call, 0)));
  return seeds;
}

std::vector<Bytes> PushRowsSeeds() {
  const std::vector<float> rates{0.5F, 0.25F, 1e-6F};
  PushRowsCall call{.step_id = {.run = 5, .rank = 1, .step = 77},
                    .groups = SomeGroups(),
                    .learning_rates = rates};
  std::vector<Bytes> seeds{MetadataOf(api::Encode(call, 9))};
  call.groups = {};
  seeds.push_back(MetadataOf(api::Encode(call, 0)));
  return seeds;
}

void RunPullReport(Input input) {
  const Received<api::wire::PullRowsResponse> response(input);
  if (response.table == nullptr) return;
  const PullReport report = api::Decode(*response.table);
  const Received<api::wire::PullRowsResponse> again(api::Encode(report, {}));
  const PullReport second = api::Decode(*again.table);
  SIMURGH_CHECK_EQ(second.found, report.found);
  SIMURGH_CHECK_EQ(second.created, report.created);
  SIMURGH_CHECK_EQ(second.unseen, report.unseen);
  SIMURGH_CHECK_EQ(second.rejected_admission, report.rejected_admission);
  SIMURGH_CHECK_EQ(second.evicted, report.evicted);
  SIMURGH_CHECK_EQ(second.rejected_full, report.rejected_full);
  SIMURGH_CHECK_EQ(second.evicted_for_space, report.evicted_for_space);
}

void RunPushReport(Input input) {
  const Received<api::wire::PushRowsResponse> response(input);
  if (response.table == nullptr) return;
  const PushReport report = api::Decode(*response.table);
  const Received<api::wire::PushRowsResponse> again(api::Encode(report));
  const PushReport second = api::Decode(*again.table);
  SIMURGH_CHECK_EQ(second.repeated, report.repeated);
  SIMURGH_CHECK_EQ(second.updated, report.updated);
  SIMURGH_CHECK_EQ(second.missing, report.missing);
}

std::vector<Bytes> PullReportSeeds() {
  const PullReport report{.found = 1,
                          .created = 2,
                          .unseen = 3,
                          .rejected_admission = 4,
                          .evicted = 5,
                          .evicted_for_space = 6};
  return {MetadataOf(api::Encode(PullReport(), {})), MetadataOf(api::Encode(report, {}))};
}

std::vector<Bytes> PushReportSeeds() {
  const PushReport report{.repeated = true, .updated = 2, .missing = 3};
  return {MetadataOf(api::Encode(PushReport())), MetadataOf(api::Encode(report))};
}

void RunEndRun(Input input) {
  const Received<api::wire::EndRunRequest> request(input);
  if (request.table == nullptr) return;
  const StepId step_id = api::Decode(*request.table->step_id());
  const Received<api::wire::EndRunRequest> again(api::EncodeEndRun(step_id));
  SIMURGH_CHECK(Same(api::Decode(*again.table->step_id()), step_id));
}

std::vector<Bytes> EndRunSeeds() {
  return {MetadataOf(api::EncodeEndRun({.run = 5, .rank = 1, .ranks = 2}))};
}

void RunSaveRows(Input input) {
  const Received<api::wire::SaveRowsRequest> request(input);
  if (request.table == nullptr) return;
  const SaveRowsCall call = api::Decode(*request.table);
  const Received<api::wire::SaveRowsRequest> again(api::Encode(call));
  const SaveRowsCall copy = api::Decode(*again.table);
  SIMURGH_CHECK(copy.run == call.run && copy.folder == call.folder);
  SIMURGH_CHECK(copy.server == call.server && copy.probe == call.probe);
  SIMURGH_CHECK(copy.parent == call.parent && copy.directory == call.directory &&
                copy.continues == call.continues);
}

std::vector<Bytes> SaveRowsSeeds() {
  return {MetadataOf(api::Encode({.run = 5, .folder = "step-7.tmp-1", .server = 1})),
          MetadataOf(api::Encode(
              {.run = 5, .folder = "step-7.tmp-1", .directory = "/other", .continues = true})),
          MetadataOf(api::Encode({.folder = "generation-1", .probe = true}))};
}

void RunRestoreRows(Input input) {
  const Received<api::wire::RestoreRowsRequest> request(input);
  if (request.table == nullptr) return;
  const RestoreRowsCall call = api::Decode(*request.table);
  const Received<api::wire::RestoreRowsRequest> again(api::Encode(call));
  const RestoreRowsCall copy = api::Decode(*again.table);
  SIMURGH_CHECK(copy.run == call.run && copy.ranks == call.ranks && copy.model == call.model);
  SIMURGH_CHECK(copy.step == call.step && copy.server == call.server && copy.load == call.load);
}

std::vector<Bytes> RestoreRowsSeeds() {
  return {MetadataOf(api::Encode(RestoreRowsCall{
      .run = 5, .ranks = 2, .model = "/models/a", .step = 700, .server = 1, .load = 2}))};
}

void RunSaveProgress(Input input) {
  const Received<api::wire::SaveRowsResponse> response(input);
  if (response.table == nullptr) return;
  const SaveProgress progress = api::Decode(*response.table);
  const Received<api::wire::SaveRowsResponse> again(api::Encode(progress));
  const SaveProgress copy = api::Decode(*again.table);
  SIMURGH_CHECK(copy.files == progress.files && copy.evicted == progress.evicted);
}

std::vector<Bytes> SaveProgressSeeds() {
  return {MetadataOf(api::Encode(SaveProgress{.rows = 3, .all_rows = 9, .bytes = 700})),
          MetadataOf(api::Encode(SaveProgress{
              .done = true, .rows = 9, .all_rows = 9, .files = {{"rows/t/0", 100, 77}}})),
          MetadataOf(api::Encode(SaveProgress{.done = true, .rows = 9, .evicted = {2, 5}}))};
}

}  // namespace

std::vector<Target> RowTargets() {
  return {{"pull_rows", RunPullRows, PullRowsSeeds},
          {"read_rows_ahead", RunReadRowsAhead, ReadRowsAheadSeeds},
          {"push_rows", RunPushRows, PushRowsSeeds},
          {"end_run", RunEndRun, EndRunSeeds},
          {"save_rows", RunSaveRows, SaveRowsSeeds},
          {"restore_rows", RunRestoreRows, RestoreRowsSeeds},
          {"save_progress", RunSaveProgress, SaveProgressSeeds},
          {"pull_rows_report", RunPullReport, PullReportSeeds},
          {"push_rows_report", RunPushReport, PushReportSeeds}};
}

}  // namespace simurgh::fuzz
