#include "services/nn_worker/rendezvous.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "base/log.h"
#include "base/text.h"
#include "services/api/peer_clients.h"
#include "services/api/reply.h"
#include "services/nn_worker/rank_mesh.h"

namespace simurgh {
namespace {

// Maximum wait of one call for the other ranks; it is then retried.
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kPause{200};

}  // namespace

Status Rendezvous::Arrive(uint32_t rank, uint32_t ranks, const std::string& plan,
                          uint64_t incarnation) {
  if (ranks != incarnations_.size() || rank >= ranks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " of ", ranks, " does not fit rank 0, which has ", incarnations_.size(),
        " ranks; use the same nn_worker.instances for all nn-workers"));
  }
  const std::string difference =
      SettingsDifference(plan_, "rank 0", plan, absl::StrCat("rank ", rank));
  if (absl::StrContains(difference, "first step = ")) {
    conflict_ = absl::FailedPreconditionError(
        absl::StrCat("ranks continue from different checkpoints: ", difference,
                     "; start all ranks again, with the same checkpoint.directory"));
    changes_.NotifyAll();
  }
  if (!conflict_.ok()) return conflict_;
  if (!difference.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("configurations differ: ", difference,
                     "; use the same file, overrides and training files for all ranks"));
  }
  if (Missing().empty() && incarnations_[rank] != incarnation) {
    on_restart_(rank);
    return absl::AbortedError(
        absl::StrCat("rank ", rank, " was restarted after training had begun; restart all ranks"));
  }
  incarnations_[rank] = incarnation;
  return absl::OkStatus();
}

std::string Rendezvous::Missing() const {
  std::string missing;
  for (size_t rank = 0; rank < incarnations_.size(); ++rank) {
    if (incarnations_[rank]) continue;
    absl::StrAppend(&missing, missing.empty() ? "ranks " : ", ", rank);
  }
  return missing;
}

void Rendezvous::Register(rpc::Server& server) {
  rpc::Register(server, api::kMeetRanks,
                [this](auto request) { return OnMeet(std::move(request)); });
}

Reply<api::MeetRanks> Rendezvous::OnMeet(rpc::RequestOf<api::MeetRanks::Request> request) {
  const auto& table = request.table();
  while (phase_ == Phase::kSaves) {
    if (co_await changes_.Wait(api::AnswerBefore(request.deadline()))) continue;
    co_return absl::ResourceExhaustedError("rank 0 saves the model of the run before");
  }
  if (phase_ == Phase::kOver) {
    co_return absl::FailedPreconditionError("the run has ended; start this rank again");
  }
  const Status arrived =
      Arrive(table.rank(), table.ranks(), table.plan() == nullptr ? "" : table.plan()->str(),
             request.peer().incarnation);
  if (!arrived.ok()) {
    spdlog::warn("refused rank {}: {}", table.rank(), std::string(arrived.message()));
    co_return arrived;
  }
  if (Missing().empty()) {
    changes_.NotifyAll();
  } else if (!co_await changes_.Wait(api::AnswerBefore(request.deadline()))) {
    co_return absl::ResourceExhaustedError(absl::StrCat(Missing(), " did not arrive"));
  }
  SIMURGH_CO_RETURN_IF_ERROR(conflict_);
  flatbuffers::FlatBufferBuilder builder;
  const auto root = api::wire::CreateMeetRanksResponse(builder, run_);
  co_return rpc::Outgoing<api::MeetRanks::Response>(builder, root);
}

rpc::awaitable<StatusOr<uint64_t>> MeetRanks(rpc::Client& client, uint32_t rank, uint32_t ranks,
                                             std::string plan, rpc::Clock::time_point deadline) {
  while (true) {
    flatbuffers::FlatBufferBuilder builder;
    const auto root =
        api::wire::CreateMeetRanksRequest(builder, rank, ranks, builder.CreateString(plan));
    const auto until = std::min(deadline, rpc::Clock::now() + kPatience);
    const auto response = co_await rpc::Call(client, api::kMeetRanks, {builder, root}, until);
    if (response.ok()) co_return response->table().run();
    const Status& status = response.status();
    // After another start, all ranks find the same checkpoint.
    if (absl::IsFailedPrecondition(status)) {
      co_return absl::AbortedError(absl::StrCat("rank 0: ", status.message()));
    }
    const bool is_waiting = absl::IsResourceExhausted(status);
    if (!is_waiting && !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status) &&
        !absl::IsAborted(status)) {
      co_return Annotate(status, "rank 0");
    }
    if (rpc::Clock::now() + kPause >= deadline) {
      co_return absl::DeadlineExceededError(
          is_waiting ? absl::StrCat(status.message(), " within nn_worker.rank_timeout; start them")
                     : absl::StrCat("rank 0 did not answer within nn_worker.rank_timeout: ",
                                    status.message()));
    }
    spdlog::info("waiting for the other ranks: {}", std::string(status.message()));
    rpc::asio::steady_timer timer(co_await rpc::asio::this_coro::executor, kPause);
    (void)co_await timer.async_wait(rpc::kNoThrow);
  }
}

Ranks::Ranks(DaemonContext& context, std::string plan, IoThread& thread)
    : context_(context),
      thread_(thread),
      plan_(std::move(plan)),
      observer_(context.metrics(), RpcSide::kClient),
      rendezvous_(thread.executor(),
                  static_cast<uint32_t>(context.config().nn_worker.instances.size()), plan_,
                  [this](uint32_t rank) {
                    mesh_.Abort(absl::UnavailableError(absl::StrCat("rank ", rank, " restarted")));
                  }),
      mesh_(thread, {.rank = context.index(),
                     .ranks = static_cast<uint32_t>(context.config().nn_worker.instances.size()),
                     .timeout = context.config().nn_worker.rank_timeout}) {}

void Ranks::Register(rpc::Server& server) {
  mesh_.Register(server);
  if (mesh_.rank() == 0) rendezvous_.Register(server);
}

std::unique_ptr<rpc::Client> Ranks::Dial(uint32_t rank) {
  const std::vector<InstanceConfig>& ranks = context_.config().nn_worker.instances;
  return std::make_unique<rpc::Client>(
      thread_.executor(), ranks[rank].address, context_.hello(),
      OptionsFor(context_.rpc_options().client, "nn-worker", ranks, rank), &observer_);
}

StatusOr<uint64_t> Ranks::Meet(const std::stop_token& stop) {
  std::unique_ptr<rpc::Client> client = Dial(0);
  const auto deadline = rpc::Clock::now() + context_.config().nn_worker.rank_timeout;
  auto meeting = rpc::asio::co_spawn(
      thread_.executor(), MeetRanks(*client, mesh_.rank(), mesh_.ranks(), plan_, deadline),
      rpc::asio::use_future);
  StatusOr<uint64_t> run;
  {
    const std::stop_callback stopper(
        stop, [&] { rpc::asio::post(thread_.executor(), [&client] { client->Stop(); }); });
    run = meeting.get();
  }
  thread_.RunAndWait([&] { client.reset(); });
  return run;
}

StatusOr<JointRun> Ranks::Join(uint64_t run, const std::stop_token& stop) {
  JointRun joint{.collective = NewRankCollective(mesh_)};  // Ends the mesh after an error.
  if (mesh_.rank() == 0) {
    thread_.RunAndWait([&] { rendezvous_.Begin(run); });
    mesh_.Expect(run);
  }
  SIMURGH_ASSIGN_OR_RETURN(joint.run, Meet(stop));
  const std::stop_callback stopper(
      stop, [this] { mesh_.Abort(absl::CancelledError("stopped while connecting to ranks")); });
  SIMURGH_RETURN_IF_ERROR(mesh_.Start(joint.run, [this](uint32_t rank) { return Dial(rank); }));
  spdlog::info("all ranks are connected: rank={} ranks={}", mesh_.rank(), mesh_.ranks());
  return joint;
}

}  // namespace simurgh
