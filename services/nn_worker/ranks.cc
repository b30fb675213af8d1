#include "services/nn_worker/ranks.h"

#include <utility>

#include <boost/asio/use_future.hpp>

#include "rpc/address.h"
#include "services/runtime/rpc_metrics.h"
#include "simurgh/base/log.h"
#include "simurgh/collective/gloo_collective.h"

namespace simurgh {
Ranks::Ranks(DaemonContext& context, std::string plan)
    : context_(context),
      rank_(context.index()),
      ranks_(static_cast<uint32_t>(context.config().nn_worker.instances.size())),
      plan_(std::move(plan)),
      rendezvous_(ranks_, plan_) {}

void Ranks::ServeRendezvous(rpc::Server& server, rpc::asio::any_io_executor executor) {
  RegisterRankMethods(server, rendezvous_, context_.hello().incarnation, std::move(executor));
}

StatusOr<RendezvousResult> Ranks::JoinAtRank0(std::string own, const std::stop_token& stop) {
  IoThread thread("rendezvous");
  RpcMetrics observer(context_.metrics(), RpcSide::kClient);
  const std::vector<InstanceConfig>& ranks = context_.config().nn_worker.instances;
  auto client = std::make_unique<rpc::Client>(
      thread.executor(), ranks[0].address, context_.hello(),
      OptionsFor(context_.rpc_options().client, "nn-worker", ranks, 0), &observer);
  const auto deadline = rpc::Clock::now() + context_.config().nn_worker.rank_timeout;
  auto joining = rpc::asio::co_spawn(
      thread.executor(), MeetRanks(*client, rank_, ranks_, plan_, std::move(own), deadline),
      rpc::asio::use_future);
  StatusOr<RendezvousResult> result;
  {
    const std::stop_callback stopper(
        stop, [&] { rpc::asio::post(thread.executor(), [&client] { client->Stop(); }); });
    result = joining.get();
  }
  thread.RunAndWait([&] { client.reset(); });
  return result;
}

StatusOr<JointRun> Ranks::Join(const std::stop_token& stop) {
  SIMURGH_ASSIGN_OR_RETURN(const rpc::Address address,
                           rpc::ParseAddress(context_.instance().address));
  const ClusterConfig& config = context_.config();
  JointRun joint;
  const auto exchange = [&](std::string own) -> StatusOr<std::vector<std::string>> {
    if (rank_ > 0) {
      SIMURGH_ASSIGN_OR_RETURN(RendezvousResult met, JoinAtRank0(std::move(own), stop));
      joint.run = met.run;
      return std::move(met.addresses);
    }
    joint.run = context_.hello().incarnation;
    SIMURGH_RETURN_IF_ERROR(rendezvous_.Arrive(0, ranks_, plan_, std::move(own)));
    spdlog::info("waiting for {}", rendezvous_.Missing());
    return rendezvous_.Await(std::chrono::steady_clock::now() + config.nn_worker.rank_timeout,
                             stop);
  };
  SIMURGH_ASSIGN_OR_RETURN(
      joint.collective,
      CreateGlooCollective({.rank = rank_,
                            .ranks = ranks_,
                            // A path is local.
                            .host = address.has_path() ? "127.0.0.1" : address.host,
                            .is_trusted = config.rpc.security == Security::kInsecure,
                            .shares_memory = address.may_share(),
                            .timeout = config.nn_worker.rank_timeout},
                           exchange));
  spdlog::info("all ranks are connected: rank={} ranks={}", rank_, ranks_);
  return joint;
}

}  // namespace simurgh
