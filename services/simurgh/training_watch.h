#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "base/status.h"
#include "config/cluster_config.h"
#include "rpc/client.h"
#include "services/api/methods.h"
#include "services/api/peer_clients.h"
#include "services/nn_worker/checkpointer.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_setup.h"

namespace simurgh {

// Calls the first nn-worker of a training.
//
// Threads: one owner. Lifetime: outlives the futures that it returns.
class FirstTrainer {
 public:
  // role: role of this host in HELLO. Errors: INVALID_ARGUMENT.
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

// Watches whether a training continues whose first nn-worker may run on another host.
//
// Threads: one owner.
class TrainingWatch {
 public:
  // role: see FirstTrainer. Errors: INVALID_ARGUMENT.
  static StatusOr<std::unique_ptr<TrainingWatch>> Start(const ClusterConfig& config,
                                                        const std::string& role) {
    SIMURGH_ASSIGN_OR_RETURN(auto trainer, FirstTrainer::Connect(config, role));
    return std::unique_ptr<TrainingWatch>(
        new TrainingWatch(std::move(trainer), config.nn_worker.rank_timeout));
  }

  ~TrainingWatch() {
    trainer_->Stop();
    if (answer_.valid()) answer_.wait();
    if (stopped_.valid()) stopped_.wait();
  }

  // Returns nothing while training continues, or has not begun; ok: it has ended. Call it often; it
  // does not wait.
  // Errors: those of the training; UNAVAILABLE if its first nn-worker has been lost, or has waited
  // to begin again, for nn_worker.rank_timeout; INVALID_ARGUMENT or UNAUTHENTICATED if the
  // nn-worker refuses this host.
  std::optional<Status> Look() {
    if (end_ || !IsDone(answer_)) return end_;
    if (answer_.valid()) Note(answer_.get());
    if (!end_) answer_ = trainer_->Call(api::kAwaitTraining, rpc::Outgoing<Nothing>(), kTimeout);
    return end_;
  }

  // Makes the nn-worker stop. Call it often.
  void StopTraining() {
    if (has_stopped_ || !IsDone(stopped_)) return;
    has_stopped_ = stopped_.valid() && stopped_.get().ok();
    if (!has_stopped_)
      stopped_ = trainer_->Call(api::kStopTraining, rpc::Outgoing<Nothing>(), kTimeout);
  }

  // Returns whether the nn-worker itself has reported the end.
  bool was_told() const { return was_told_; }
  // Returns whether the nn-worker has answered the last call.
  bool is_reachable() const { return is_reachable_; }
  // Returns why training has not begun; empty: it has. Nothing: not known yet.
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Nothing = rpc::MessageOf<rpc::NoTable>;
  using Answer = StatusOr<rpc::Received<api::AwaitTraining::Response>>;

  static constexpr std::chrono::seconds kTimeout{3};

  TrainingWatch(std::unique_ptr<FirstTrainer> trainer, std::chrono::milliseconds timeout)
      : trainer_(std::move(trainer)), timeout_(timeout) {}

  template <typename Future>
  static bool IsDone(const Future& future) {
    return !future.valid() || future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  void Note(const Answer& answer) {
    const Status& status = answer.status();
    const auto now = Clock::now();
    if (answer.ok()) {
      const auto code = static_cast<absl::StatusCode>(answer->table().code());
      const auto* const reason = answer->table().reason();
      was_told_ = true;
      end_ = Status(code, reason == nullptr ? "" : reason->str());
      return;
    }
    const bool trains = absl::IsResourceExhausted(status);
    const bool waits = absl::IsFailedPrecondition(status);
    const bool is_lost =
        absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
    if (!trains && !waits && !is_lost) {
      end_ = Annotate(status, absl::StrCat("nn-worker/0 at ", trainer_->address()));
      return;
    }
    is_reachable_ = !is_lost;
    problem_ = trains ? "" : std::string(status.message());
    was_reachable_ = was_reachable_ || is_reachable_;
    has_trained_ = has_trained_ || trains;
    // Before the first answer, or the first step, all daemons wait without limit.
    if (trains || (waits && !has_trained_) || !was_reachable_) good_ = now;
    if (now - good_ < timeout_) return;
    end_ = absl::UnavailableError(absl::StrCat("nn-worker/0 at ", trainer_->address(),
                                               " has not trained for ", timeout_.count(),
                                               " ms (nn_worker.rank_timeout): ", *problem_));
  }

  const std::unique_ptr<FirstTrainer> trainer_;
  const std::chrono::milliseconds timeout_;
  std::future<Answer> answer_;
  std::future<StatusOr<rpc::Received<api::StopTraining::Response>>> stopped_;
  bool has_stopped_ = false;
  bool was_told_ = false;
  bool is_reachable_ = false;
  bool was_reachable_ = false;
  bool has_trained_ = false;
  std::optional<std::string> problem_;
  Clock::time_point good_ = Clock::now();
  std::optional<Status> end_;
};

}  // namespace simurgh
