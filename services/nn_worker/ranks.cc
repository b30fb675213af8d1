#include "services/nn_worker/ranks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "services/nn_worker/rank_collective.h"
#include "simurgh/base/log.h"

namespace simurgh {

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
