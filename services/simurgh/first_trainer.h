#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include <boost/asio/use_future.hpp>

#include "rpc/client.h"
#include "services/api/patience.h"
#include "services/nn_worker/token_link.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_options.h"
#include "simurgh/base/status.h"
#include "simurgh/config/agreement.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {

// Calls the first nn-worker of a training.
//
// Threads: one owner. Lifetime: outlives the futures that it returns.
class FirstTrainer {
 public:
  // role: of this host, in HELLO. Errors: INVALID_ARGUMENT.
  static StatusOr<std::unique_ptr<FirstTrainer>> Connect(const ClusterConfig& config,
                                                         const std::string& role) {
    const std::vector<InstanceConfig>& ranks = config.nn_worker.instances;
    if (ranks[0].address.empty()) {
      return absl::InvalidArgumentError(
          "nn_worker.instances.0.address: it is missing, and this command calls it; add one, and "
          "start the training again");
    }
    RpcConfig rpc = config.rpc;
    if (rpc.token_file.empty()) {
      if (auto token = FindTokenLink(config.checkpoint.directory)) rpc.token_file = *token;
    }
    SIMURGH_ASSIGN_OR_RETURN(const RpcOptions options, MakeRpcOptions(rpc));
    return std::unique_ptr<FirstTrainer>(
        new FirstTrainer(ranks[0].address, OptionsFor(options.client, "nn-worker", ranks, 0),
                         {.cluster = config.name,
                          .role = role,
                          .incarnation = std::random_device()() | uint64_t{1},
                          .configuration = ClusterAgreement(config)}));
  }

  ~FirstTrainer() {
    thread_.RunAndWait([this] { client_.reset(); });
  }

  template <typename Request, typename Response>
  std::future<StatusOr<rpc::Received<Response>>> Call(
      const rpc::MethodOf<Request, Response>& method, rpc::Outgoing<Request> request,
      std::chrono::seconds timeout) {
    const auto deadline = rpc::Clock::now() + timeout;
    return rpc::asio::co_spawn(
        thread_.executor(),
        rpc::Call(*client_, method, std::move(request), api::Patient({deadline})),
        rpc::asio::use_future);
  }

  // Ends the calls in flight.
  void Stop() {
    thread_.RunAndWait([this] { client_->Stop(); });
  }

  const std::string& address() const { return address_; }

 private:
  FirstTrainer(std::string address, const rpc::ClientOptions& options, const rpc::Hello& hello)
      : address_(std::move(address)) {
    thread_.RunAndWait([&] {
      client_ = std::make_unique<rpc::Client>(thread_.executor(), address_, hello, options,
                                              /*observer=*/nullptr);
    });
  }

  const std::string address_;
  std::unique_ptr<rpc::Client> client_;
  IoThread thread_{"rpc"};
};

}  // namespace simurgh
