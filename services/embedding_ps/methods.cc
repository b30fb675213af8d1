#include "services/embedding_ps/methods.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/step_id.h"
#include "services/api/dense_rpc.h"
#include "services/api/peer_clients.h"
#include "services/api/row_rpc.h"

namespace simurgh {
namespace {

constexpr size_t kMaxTrainings = 1'024;  // That a server remembers.

// The unit of fairness is the connection.
uint64_t ClientOf(const rpc::Hello& peer) { return reinterpret_cast<uintptr_t>(&peer); }

// Admits a request that needs rows. With checkpoint.on_server_loss: partial, a server that has lost
// them loads the last checkpoint's first.
Status AdmitWithRows(RunGuard& runs, ParameterServer& server, uint64_t run,
                     RunGuard::Request request) {
  const Status admitted = runs.Admit(run, request, RunGuard::Clock::now());
  if (!absl::IsDataLoss(admitted)) return admitted;
  SIMURGH_RETURN_IF_ERROR(server.RestoreLost(run, admitted));
  runs.Begin(run);
  return runs.Admit(run, request, RunGuard::Clock::now());
}

// A request as its placement has parsed it. The call has no groups and no spans.
template <typename Call>
struct Parsed {
  Call call;
  api::ParsedRows rows;
};

// Rows are gathered into the response buffer, which a client on shared memory reads in place.
Reply<api::PullRows> HandlePull(rpc::RequestOf<api::PullRows::Request> request,
                                Parsed<PullRowsCall>& parsed, ParameterServer& server,
                                RunGuard& runs) {
  PullRowsCall& call = parsed.call;
  const auto kind =
      call.mode == LookupMode::kTrain ? RunGuard::Request::kPull : RunGuard::Request::kEvaluate;
  SIMURGH_CO_RETURN_IF_ERROR(AdmitWithRows(runs, server, call.step_id.run, kind));
  const rpc::SegmentBuffer rows = request.Allocate(parsed.rows.payload().bytes);
  call.ids = request.segment<"ids">();
  call.rows = rows.bytes;
  call.client = ClientOf(request.peer());
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const PullReport report,
      co_await server.Pull(call, std::move(parsed.rows), {request.deadline(), request.trace()}));
  co_return api::Encode(report, {rows.bytes, rows.owner});
}

Reply<api::PushRows> HandlePush(rpc::RequestOf<api::PushRows::Request> request,
                                Parsed<PushRowsCall>& parsed, ParameterServer& server,
                                RunGuard& runs) {
  PushRowsCall& call = parsed.call;
  SIMURGH_CO_RETURN_IF_ERROR(
      AdmitWithRows(runs, server, call.step_id.run, RunGuard::Request::kPush));
  call.ids = request.segment<"ids">();
  call.gradients = request.segment<"gradients">();
  call.client = ClientOf(request.peer());
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const PushReport report,
      co_await server.Push(call, std::move(parsed.rows), {request.deadline(), request.trace()}));
  co_return api::Encode(report);
}

Reply<api::EndRun> HandleEnd(rpc::RequestOf<api::EndRun::Request> request, RunGuard& runs) {
  runs.End(api::Decode(*request.table().step_id()));
  co_return rpc::Outgoing<api::EndRun::Response>();
}

Reply<api::SaveRows> HandleSave(rpc::RequestOf<api::SaveRows::Request> request,
                                ParameterServer& server, RunGuard& runs) {
  SaveRowsCall call = api::Decode(request.table());
  SIMURGH_CO_RETURN_IF_ERROR(
      runs.Admit(call.run, call.probe ? RunGuard::Request::kProbe : RunGuard::Request::kPull,
                 RunGuard::Clock::now()));
  SIMURGH_CO_ASSIGN_OR_RETURN(const SaveProgress progress,
                              co_await server.SaveRows(std::move(call), {request.deadline()}));
  co_return api::Encode(progress);
}

Reply<api::RestoreRows> HandleRestore(rpc::RequestOf<api::RestoreRows::Request> request,
                                      ParameterServer& server, RunGuard& runs) {
  RestoreRowsCall call = api::Decode(request.table());
  SIMURGH_CO_RETURN_IF_ERROR(
      runs.Admit(call.run, RunGuard::Request::kBegin, RunGuard::Clock::now()));
  const uint64_t run = call.run;
  SIMURGH_CO_ASSIGN_OR_RETURN(const SaveProgress progress,
                              co_await server.RestoreRows(std::move(call), {request.deadline()}));
  if (progress.done) runs.Begin(run);
  co_return api::Encode(progress);
}

template <typename T>
rpc::SegmentDestination<T> Lease(BufferPool& buffers, uint64_t count) {
  auto buffer = buffers.Lease(count * sizeof(T));
  const std::span<T> values = buffer->as<T>(count);
  return {values, std::move(buffer)};
}

template <typename Request>
StatusOr<api::ParsedRows> Parse(const Request& request, const ParameterServer& server,
                                uint64_t map_version) {
  if (request.map_version() == map_version) {
    return api::ParsedRows::Parse(*request.groups(), server.shape());
  }
  return absl::FailedPreconditionError(
      absl::StrCat("rows: the request uses bucket map ", request.map_version(), ", this server ",
                   map_version, "; restart the cluster with one configuration"));
}

}  // namespace

Status RunGuard::AdmitStart(uint64_t run, Request request) {
  if (GenerationOf(run) == 0) return absl::OkStatus();
  Start& newest = newest_[TrainingOf(run)];
  if (IsSuperseded(run, newest.run)) return SupersededError(newest.run);
  if (run != newest.run) newest = {.run = run};
  const bool needs_rows = request != Request::kProbe && request != Request::kBegin;
  if (needs_rows && !newest.has_begun) {
    return absl::DataLossError(
        absl::StrCat("this server was restarted and has lost the rows of run ",
                     absl::Hex(run, absl::kZeroPad16), "; start the nn-workers again"));
  }
  if (newest_.size() > kMaxTrainings) {
    const bool is_first = newest_.begin()->first == TrainingOf(run);
    newest_.erase(is_first ? std::next(newest_.begin()) : newest_.begin());
  }
  return absl::OkStatus();
}

void RunGuard::Begin(uint64_t run) {
  const auto found = newest_.find(TrainingOf(run));
  if (found != newest_.end() && found->second.run == run) found->second.has_begun = true;
}

Status RunGuard::Admit(uint64_t run, Request request, Clock::time_point now) {
  SIMURGH_RETURN_IF_ERROR(AdmitStart(run, request));
  if (allows_all_) return absl::OkStatus();
  if (request == Request::kProbe || request == Request::kEvaluate) {
    if (active_ && run_ == run) seen_ = now;
    return absl::OkStatus();
  }
  if (run == replaced_run_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "run ", absl::Hex(run, absl::kZeroPad16), " sent nothing for ", timeout_.count(),
        " ms, and another run changed its rows; train again, with a larger "
        "embedding_ps.run_timeout"));
  }
  if (active_ && IsSuperseded(run_, run)) active_ = false;
  if (active_ && run_ != run) {
    const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(now - seen_);
    if (idle < timeout_ && (pushed_ || run > run_)) {
      return absl::AbortedError(absl::StrCat(
          "run ", absl::Hex(run_, absl::kZeroPad16), " trains here, last request ", idle.count(),
          " ms ago; waiting for its end, or for embedding_ps.run_timeout without a request; to "
          "train both at once, set embedding_ps.concurrent_runs: allow"));
    }
    if (pushed_) replaced_run_ = run_;
    active_ = false;
  }
  if (!active_) {
    if (run == ended_run_) return absl::OkStatus();  // A request that overlapped its end.
    active_ = true;
    run_ = run;
    pushed_ = false;
    ended_ranks_.clear();
  }
  pushed_ = pushed_ || request == Request::kPush;
  seen_ = now;
  return absl::OkStatus();
}

void RunGuard::End(const StepId& step_id) {
  if (!active_ || run_ != step_id.run) return;
  ended_ranks_.insert(step_id.rank);
  if (ended_ranks_.size() < step_id.ranks) return;
  active_ = false;
  ended_run_ = run_;
}

// Ids are copied into pooled memory because a table requires that they do not change meanwhile.
// Gradients may stay in memory shared with the client.
void RegisterRowMethods(rpc::Server& server, ParameterServer& rows, RunGuard& runs,
                        BufferPool& buffers, uint64_t map_version) {
  // A RowGroup takes less than 64 bytes and a count for each partition.
  const uint64_t head_bytes =
      65'536 + rows.shape().dims.size() * (64 + uint64_t{4} * rows.shape().partitions);
  auto pull_rows = api::kPullRows;
  auto push_rows = api::kPushRows;
  pull_rows.max_head_bytes = push_rows.max_head_bytes = head_bytes;
  using PullPlaced = rpc::PlacedWith<api::PullRows::Request, Parsed<PullRowsCall>>;
  const auto place_pull =
      [&rows, &buffers, map_version](
          const api::wire::PullRowsRequest& request,
          const api::PullRows::Request::Counts& counts) -> StatusOr<PullPlaced> {
    SIMURGH_ASSIGN_OR_RETURN(const LookupMode mode,
                             api::DecodeLookupMode("pull rows", request.mode()));
    SIMURGH_ASSIGN_OR_RETURN(api::ParsedRows parsed, Parse(request, rows, map_version));
    SIMURGH_RETURN_IF_ERROR(parsed.CheckLengths(counts[0], parsed.payload().bytes));
    return PullPlaced{{Lease<uint64_t>(buffers, counts[0])},
                      {{.mode = mode,
                        .step_id = api::Decode(*request.step_id()),
                        .acknowledged_steps = request.acknowledged_steps()},
                       std::move(parsed)}};
  };
  rpc::Register(server, pull_rows, place_pull, [&rows, &runs](auto request, auto& parsed) {
    return HandlePull(std::move(request), parsed, rows, runs);
  });

  using PushPlaced = rpc::PlacedWith<api::PushRows::Request, Parsed<PushRowsCall>>;
  const auto place_push =
      [&rows, &buffers, map_version](
          const api::wire::PushRowsRequest& request,
          const api::PushRows::Request::Counts& counts) -> StatusOr<PushPlaced> {
    const auto [ids, gradients] = counts;
    const StepId step_id = api::Decode(*request.step_id());
    SIMURGH_ASSIGN_OR_RETURN(api::ParsedRows parsed, Parse(request, rows, map_version));
    SIMURGH_RETURN_IF_ERROR(parsed.CheckLengths(ids, gradients));
    SIMURGH_RETURN_IF_ERROR(api::CheckPushOrder(step_id));
    return PushPlaced{
        {Lease<uint64_t>(buffers, ids), rpc::SegmentDestination<std::byte>::kAllocate},
        {{.step_id = step_id}, std::move(parsed)}};
  };
  rpc::Register(server, push_rows, place_push, [&rows, &runs](auto request, auto& parsed) {
    return HandlePush(std::move(request), parsed, rows, runs);
  });

  rpc::Register(server, api::kSaveRows, [&rows, &runs](auto request) {
    return HandleSave(std::move(request), rows, runs);
  });
  rpc::Register(server, api::kRestoreRows, [&rows, &runs](auto request) {
    return HandleRestore(std::move(request), rows, runs);
  });
  rpc::Register(server, api::kEndRun,
                [&runs](auto request) { return HandleEnd(std::move(request), runs); });
}

namespace {

// The numbers of a response.
std::span<float> FloatsOf(const rpc::SegmentBuffer& buffer) {
  return {reinterpret_cast<float*>(buffer.bytes.data()), buffer.bytes.size() / sizeof(float)};
}

Reply<api::StartDense> HandleStart(rpc::RequestOf<api::StartDense::Request> request,
                                   DenseStore& store, RunGuard& runs) {
  SIMURGH_CO_RETURN_IF_ERROR(
      runs.Admit(request.table().run(), RunGuard::Request::kPull, RunGuard::Clock::now()));
  SIMURGH_CO_ASSIGN_OR_RETURN(const DenseOptimizerConfig optimizer,
                              api::Decode(*request.table().optimizer()));
  StartDenseCall call{
      .run = request.table().run(),
      .optimizer = optimizer,
      .parameters = request.segment<"parameters">(),
      .state = request.segment<"state">(),
      .owner =
          std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
              request.owner<"parameters">(), request.owner<"state">())};
  SIMURGH_CO_ASSIGN_OR_RETURN(const DenseAnswer answer,
                              co_await store.Start(std::move(call), {request.deadline()}));
  co_return api::EncodeStarted(answer);
}

Reply<api::PullDense> HandlePull(rpc::RequestOf<api::PullDense::Request> request,
                                 DenseStore& store) {
  // Limits the allocation; Pull() rejects a count that differs.
  const size_t count = std::min<size_t>(request.table().count(), store.longest());
  const rpc::SegmentBuffer memory = request.Allocate(count * sizeof(float));
  PullDenseCall call{.run = request.table().run(),
                     .state = request.table().state(),
                     .values = FloatsOf(memory),
                     .owner = memory.owner};
  SIMURGH_CO_ASSIGN_OR_RETURN(const DenseAnswer answer,
                              co_await store.Pull(std::move(call), {request.deadline()}));
  co_return api::EncodeWeights<api::PullDense>(answer, {FloatsOf(memory), memory.owner});
}

Reply<api::PushDense> HandlePush(rpc::RequestOf<api::PushDense::Request> request, DenseStore& store,
                                 RunGuard& runs) {
  SIMURGH_CO_RETURN_IF_ERROR(
      runs.Admit(request.table().run(), RunGuard::Request::kPush, RunGuard::Clock::now()));
  const std::span<const float> gradients = request.segment<"gradients">();
  const rpc::SegmentBuffer memory = request.Allocate(gradients.size_bytes());
  const auto& table = request.table();
  PushDenseCall call{.run = table.run(),
                     .rank = table.rank(),
                     .number = table.number(),
                     .base_version = table.base_version(),
                     .learning_rate = table.learning_rate(),
                     .gradients = gradients,
                     .parameters = FloatsOf(memory),
                     .owner = memory.owner};
  SIMURGH_CO_ASSIGN_OR_RETURN(const DenseAnswer answer,
                              co_await store.Push(std::move(call), {request.deadline()}));
  co_return api::EncodeWeights<api::PushDense>(answer, {FloatsOf(memory), memory.owner});
}

Status CheckCount(uint64_t count, uint64_t limit) {
  if (count <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("dense weights: a range of ", count,
                                                 " numbers; a server holds at most ", limit));
}

}  // namespace

void RegisterDenseMethods(rpc::Server& server, DenseStore& store, RunGuard& runs,
                          BufferPool& buffers) {
  using StartPlaces = rpc::Destinations<api::StartDense::Request>;
  const auto place_start =
      [&buffers](const api::wire::StartDenseRequest& /*request*/,
                 const api::StartDense::Request::Counts& counts) -> StatusOr<StartPlaces> {
    SIMURGH_RETURN_IF_ERROR(CheckCount(counts[0], DenseShard::kMaxFloats));
    SIMURGH_RETURN_IF_ERROR(CheckCount(counts[1], DenseShard::kMaxStateFloats));
    return StartPlaces{Lease<float>(buffers, counts[0]), Lease<float>(buffers, counts[1])};
  };
  rpc::Register(server, api::kStartDense, place_start, [&store, &runs](auto request) {
    return HandleStart(std::move(request), store, runs);
  });

  rpc::Register(server, api::kPullDense,
                [&store](auto request) { return HandlePull(std::move(request), store); });

  using PushPlaces = rpc::Destinations<api::PushDense::Request>;
  const auto place_push =
      [](const api::wire::PushDenseRequest& /*request*/,
         const api::PushDense::Request::Counts& counts) -> StatusOr<PushPlaces> {
    SIMURGH_RETURN_IF_ERROR(CheckCount(counts[0], DenseShard::kMaxFloats));
    return PushPlaces{rpc::SegmentDestination<float>::kAllocate};
  };
  rpc::Register(server, api::kPushDense, place_push, [&store, &runs](auto request) {
    return HandlePush(std::move(request), store, runs);
  });
}

}  // namespace simurgh
