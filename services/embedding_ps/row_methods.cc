#include "services/embedding_ps/row_methods.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/step_id.h"
#include "services/api/reply.h"
#include "services/api/row_rpc.h"

namespace simurgh {
namespace {

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

Reply<api::ReadRowsAhead> HandleReadAhead(rpc::RequestOf<api::ReadRowsAhead::Request> request,
                                          api::ParsedRows& parsed, ParameterServer& server) {
  server.ReadAhead(parsed, request.segment<"ids">(), request.owner<"ids">());
  co_return rpc::Outgoing<api::ReadRowsAhead::Response>();
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

// Ids are copied into pooled memory because a table requires that they do not change meanwhile.
// Gradients may stay in memory shared with the client.
void RegisterRowMethods(rpc::Server& server, ParameterServer& rows, RunGuard& runs,
                        BufferPool& buffers, uint64_t map_version) {
  // A RowGroup takes less than 64 bytes and a count for each partition.
  const uint64_t head_bytes =
      65'536 + rows.shape().dims.size() * (64 + uint64_t{4} * rows.shape().partitions);
  auto pull_rows = api::kPullRows;
  auto await_rows = api::kAwaitRows;
  auto push_rows = api::kPushRows;
  auto read_ahead = api::kReadRowsAhead;
  pull_rows.max_head_bytes = await_rows.max_head_bytes = head_bytes;
  push_rows.max_head_bytes = read_ahead.max_head_bytes = head_bytes;
  using PullPlaced = rpc::PlacedWith<api::PullRows::Request, Parsed<PullRowsCall>>;
  const auto place_pull =
      [&rows, &buffers, map_version](
          const api::wire::PullRowsRequest& request,
          const api::PullRows::Request::Counts& counts) -> StatusOr<PullPlaced> {
    SIMURGH_ASSIGN_OR_RETURN(const LookupMode mode,
                             api::DecodeLookupMode("pull rows", request.mode()));
    const uint64_t awaited = mode == LookupMode::kTrain ? request.awaited_steps() : 0;
    SIMURGH_ASSIGN_OR_RETURN(api::ParsedRows parsed, Parse(request, rows, map_version));
    SIMURGH_RETURN_IF_ERROR(parsed.CheckLengths(counts[0], parsed.payload().bytes));
    if (awaited > 0) {
      SIMURGH_RETURN_IF_ERROR(api::CheckPushOrder(api::Decode(*request.step_id())));
    }
    return PullPlaced{
        {rpc::LeasedDestination<uint64_t>(buffers, counts[0])},
        {{.mode = mode,
          .step_id = api::Decode(*request.step_id()),
          .needed = {.acknowledged_steps = request.acknowledged_steps(), .awaited_steps = awaited}},
         std::move(parsed)}};
  };
  for (const api::PullRows& method : {pull_rows, await_rows}) {
    rpc::Register(server, method, place_pull, [&rows, &runs](auto request, auto& parsed) {
      return HandlePull(std::move(request), parsed, rows, runs);
    });
  }

  using AheadPlaced = rpc::PlacedWith<api::ReadRowsAhead::Request, api::ParsedRows>;
  const auto place_ahead =
      [&rows, &buffers, map_version](
          const api::wire::ReadRowsAheadRequest& request,
          const api::ReadRowsAhead::Request::Counts& counts) -> StatusOr<AheadPlaced> {
    SIMURGH_ASSIGN_OR_RETURN(api::ParsedRows parsed, Parse(request, rows, map_version));
    SIMURGH_RETURN_IF_ERROR(parsed.CheckLengths(counts[0], parsed.payload().bytes));
    return AheadPlaced{{rpc::LeasedDestination<uint64_t>(buffers, counts[0])}, std::move(parsed)};
  };
  rpc::Register(server, read_ahead, place_ahead, [&rows](auto request, auto& parsed) {
    return HandleReadAhead(std::move(request), parsed, rows);
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
    return PushPlaced{{rpc::LeasedDestination<uint64_t>(buffers, ids),
                       rpc::SegmentDestination<std::byte>::kAllocate},
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

}  // namespace simurgh
