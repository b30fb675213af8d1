#include "services/loader_client/loader_client.h"

#include <algorithm>
#include <future>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "services/api/feed_codec.h"
#include "services/api/patience.h"
#include "services/api/peer_clients.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_options.h"
#include "simurgh/base/log.h"
#include "simurgh/base/mutex.h"

namespace simurgh {
namespace {

constexpr size_t kBatchesUnderWay = 4;    // To each nn-worker.
constexpr size_t kLongestReason = 4'096;  // Bytes of a message.
constexpr std::chrono::milliseconds kShortestPause{20};
constexpr std::chrono::milliseconds kLongestPause{1'000};

rpc::Hello HelloOf(const ClusterConfig& config, uint32_t loader) {
  rpc::Hello hello;
  hello.cluster = config.name;
  hello.role = "loader";
  hello.index = loader;
  hello.incarnation = std::random_device()() | uint64_t{1};
  hello.configuration = ClusterAgreement(config);
  return hello;
}

// One nn-worker, and what it is fed.
struct Rank {
  uint32_t number = 0;
  std::string name;
  std::unique_ptr<PeerClients> clients;  // The thread's.
  uint64_t taken = 0;                    // Batches that it had at first.
  // Guarded by the loader's mutex.
  size_t under_way = 0;
  bool wanted = true;
};

class RemoteLoaderClient final : public LoaderClient {
 public:
  RemoteLoaderClient(const ClusterConfig& config, uint32_t loader, const RpcOptions& rpc_options,
                     const std::stop_token& stop)
      : loader_(loader),
        call_timeout_(config.rpc.call_timeout),
        retry_deadline_(config.training.retry_deadline),
        ranks_(config.nn_worker.instances.size()),
        thread_("loader-rpc", config.rpc.spin) {
    const rpc::Hello hello = HelloOf(config, loader_);
    // Here, as clients want the thread, which is declared behind them.
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].number = r;
      ranks_[r].name = ranks_.size() == 1 ? "the nn-worker" : absl::StrCat("nn-worker ", r);
      ranks_[r].clients =
          std::make_unique<PeerClients>(thread_.executor(), config.nn_worker.instances[r].address,
                                        hello, rpc_options.client, nullptr);
    }
    stopper_.emplace(stop, [this] { rpc::asio::post(thread_.executor(), [this] { Stop(); }); });
  }

  ~RemoteLoaderClient() override {
    stopper_.reset();  // Its post, if there was one, comes before what follows.
    thread_.RunAndWait([this] { Stop(); });
    {
      MutexLock lock(mutex_);
      while (SomeUnderWay()) changed_.Wait(mutex_);
    }
    thread_.RunAndWait([this] {
      for (Rank& rank : ranks_) rank.clients.reset();
    });
  }

  // The first call; all others but Abandon are only good after it.
  Status Introduce(uint32_t loaders, const std::string& input) {
    const auto ranks = static_cast<uint32_t>(ranks_.size());
    return AskAll([&, this](Rank& rank) -> rpc::awaitable<Status> {
      const auto response = co_await Persist(rank, api::kOpenFeed, [&] {
        return api::EncodeOpen(loader_, loaders, rank.number, ranks, input);
      });
      if (response.ok()) rank.taken = response->table().taken();
      co_return response.status();
    });
  }

  uint64_t taken() const override {
    uint64_t all = 0;
    for (const Rank& rank : ranks_) all += rank.taken;
    return all;
  }

  bool HasTaken(uint64_t number) const override {
    return number / ranks_.size() < ranks_[number % ranks_.size()].taken;
  }

  StatusOr<bool> Feed(Batch batch, SkippedRows skipped) override {
    SIMURGH_ASSIGN_OR_RETURN(EncodedBatch encoded, EncodeBatch(*batch.sparse));
    auto fed = std::make_shared<const api::FedBatch>(
        api::FedBatch{std::move(encoded), std::move(batch.dense)});
    const uint64_t number = NextNumber();
    Rank& rank = ranks_[number % ranks_.size()];
    {
      MutexLock lock(mutex_);
      while (failure_.ok() && rank.wanted && rank.under_way >= kBatchesUnderWay) {
        changed_.Wait(mutex_);
      }
      if (!failure_.ok()) return failure_;
      if (!SomeoneWants()) return false;
      ++next_;
      if (!rank.wanted) return true;
      ++rank.under_way;
    }
    rpc::asio::co_spawn(thread_.executor(), Deliver(rank, number, skipped, std::move(fed)),
                        rpc::asio::detached);
    return true;
  }

  Status End(SkippedRows skipped) override {
    {
      MutexLock lock(mutex_);
      while (failure_.ok() && SomeUnderWay()) changed_.Wait(mutex_);
      if (!failure_.ok()) return failure_;
    }
    const uint64_t batches = NextNumber();
    return AskAll([=, this](Rank& rank) -> rpc::awaitable<Status> {
      // Whoever wants no more counts no more.
      if (!IsWantedBy(rank)) co_return absl::OkStatus();
      const uint64_t others = ranks_.size() - 1 - rank.number;
      co_return co_await TellEnd(rank, (batches + others) / ranks_.size(), skipped, {});
    });
  }

  // Waits for no batch under way: there may be no room for it.
  Status Abandon(const Status& reason) override {
    const std::string error(reason.message().substr(0, kLongestReason));
    return AskAll([&, this](Rank& rank) { return TellEnd(rank, 0, {}, error); });
  }

 private:
  bool SomeUnderWay() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.under_way > 0; });
  }
  bool SomeoneWants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::ranges::any_of(ranks_, &Rank::wanted);
  }
  bool IsWantedBy(const Rank& rank) {
    MutexLock lock(mutex_);
    return rank.wanted;
  }

  // On the thread.
  void Stop() {
    stopped_ = true;
    for (Rank& rank : ranks_) rank.clients->Stop();
  }

  // Of the batch that comes next.
  uint64_t NextNumber() {
    while (HasTaken(next_)) ++next_;
    return next_;
  }

  // Asks all nn-workers at once, and waits for every one's answer. The first error, by rank.
  template <typename Ask>
  Status AskAll(const Ask& ask) {
    std::vector<std::future<Status>> answers;
    for (Rank& rank : ranks_) {
      answers.push_back(rpc::asio::co_spawn(thread_.executor(), ask(rank), rpc::asio::use_future));
    }
    Status first;
    for (std::future<Status>& answer : answers) first.Update(answer.get());
    return first;
  }

  // error: empty for none.
  [[nodiscard]] rpc::awaitable<Status> TellEnd(Rank& rank, uint64_t batches, SkippedRows skipped,
                                               std::string error) {
    const auto response = co_await Persist(rank, api::kEndFeed, [&] {
      flatbuffers::FlatBufferBuilder builder;
      flatbuffers::Offset<flatbuffers::String> text;
      if (!error.empty()) text = builder.CreateString(error);
      const api::wire::SkippedRows rows = api::EncodeSkipped(ToldTo(rank, skipped));
      const auto root = api::wire::CreateEndFeedRequest(builder, loader_, batches, &rows, text);
      return rpc::Outgoing<api::EndFeed::Request>(builder, root);
    });
    co_return response.status();
  }

  // Calls until there is an answer, on a connection of its own, as batches wait for earlier ones
  // and for room: a busy trainer is asked again at once, and without end; one that cannot be
  // reached with growing pauses, until the retry deadline.
  template <typename Request, typename Response, typename MakeRequest>
  [[nodiscard]] rpc::awaitable<StatusOr<rpc::Received<Response>>> Persist(
      Rank& rank, rpc::MethodOf<Request, Response> method, MakeRequest make_request) {
    std::optional<rpc::Clock::time_point> failing_since;
    std::chrono::milliseconds pause = kShortestPause;
    rpc::asio::steady_timer timer(co_await rpc::asio::this_coro::executor);
    const auto client = rank.clients->dedicated();
    while (true) {
      const auto options = api::Patient({rpc::Clock::now() + call_timeout_});
      auto response = co_await rpc::Call(*client, method, make_request(), options);
      if (response.ok()) co_return std::move(response);
      const Status& status = response.status();
      if (absl::IsResourceExhausted(status)) {
        failing_since.reset();
        pause = kShortestPause;
        continue;
      }
      const auto now = rpc::Clock::now();
      if (!failing_since) failing_since = now;
      const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
      if (stopped_ || !lost || now + pause > *failing_since + retry_deadline_) {
        co_return lost && !stopped_ ? Lost(rank, status) : Annotate(status, rank.name);
      }
      if (*failing_since == now) {
        spdlog::warn("{}: {}; retrying for {} ms", rank.name, std::string(status.message()),
                     retry_deadline_.count());
      }
      timer.expires_after(pause);
      co_await timer.async_wait(rpc::kNoThrow);
      pause = std::min(pause * 2, kLongestPause);
    }
  }

  static Status Lost(const Rank& rank, const Status& status) {
    return {status.code(),
            absl::StrCat(rank.name, " was lost for training.retry_deadline: ", status.message(),
                         "; see whether it runs, what its log says, and nn_worker.instances")};
  }

  // Bad rows are counted once.
  static SkippedRows ToldTo(const Rank& rank, SkippedRows skipped) {
    return rank.number == 0 ? skipped : SkippedRows{};
  }

  [[nodiscard]] rpc::awaitable<void> Deliver(Rank& rank, uint64_t number, SkippedRows skipped,
                                             std::shared_ptr<const api::FedBatch> batch) {
    const uint64_t of_rank = number / ranks_.size();
    const auto response = co_await Persist(rank, api::kFeedBatch, [&] {
      return api::EncodeFeed(loader_, of_rank, ToldTo(rank, skipped), batch);
    });
    if (!response.ok()) {
      co_await Fail(rank, Annotate(response.status(), absl::StrCat("batch ", number)));
    }
    MutexLock lock(mutex_);
    --rank.under_way;
    if (response.ok() && !response->table().wanted()) rank.wanted = false;
    changed_.NotifyAll();
  }

  // The first failure counts. Nobody feeds the others when one is lost: they are told first, for
  // they may be waiting for batches, and would take this loader for the one that is gone.
  [[nodiscard]] rpc::awaitable<void> Fail(const Rank& failed, Status status) {
    if (std::exchange(failing_, true)) co_return;
    const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if (lost && !stopped_) {
      const std::string error(status.message().substr(0, kLongestReason));
      std::vector<rpc::awaitable<Status>> tells;
      for (Rank& rank : ranks_) {
        if (&rank != &failed) tells.push_back(TellEnd(rank, 0, {}, error));
      }
      static_cast<void>(co_await rpc::WhenAll(std::move(tells)));
    }
    MutexLock lock(mutex_);
    failure_ = std::move(status);
  }

  const uint32_t loader_;
  const std::chrono::milliseconds call_timeout_;
  const std::chrono::milliseconds retry_deadline_;
  uint64_t next_ = 0;  // Number of the next batch, if no rank has it.
  Mutex mutex_;
  CondVar changed_;
  Status failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<Rank> ranks_;
  bool stopped_ = false;  // The thread's, and the next one.
  bool failing_ = false;
  IoThread thread_;
  std::optional<std::stop_callback<std::function<void()>>> stopper_;
};

uint32_t LoadersOf(const ClusterConfig& config) {
  return static_cast<uint32_t>(config.loaders.instances.size());
}

StatusOr<std::unique_ptr<RemoteLoaderClient>> Connect(const ClusterConfig& config, uint32_t loader,
                                                      const std::stop_token& stop) {
  if (loader >= LoadersOf(config)) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader ", loader, ": the configuration has ", LoadersOf(config),
                     " entries in loaders.instances; add one or choose a smaller number, from 0"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const RpcOptions rpc_options, MakeRpcOptions(config.rpc));
  return std::make_unique<RemoteLoaderClient>(config, loader, rpc_options, stop);
}

}  // namespace

StatusOr<std::unique_ptr<LoaderClient>> LoaderClient::Open(const ClusterConfig& config,
                                                           const LoaderClientOptions& options,
                                                           std::stop_token stop) {
  SIMURGH_ASSIGN_OR_RETURN(auto client, Connect(config, options.loader, stop));
  SIMURGH_RETURN_IF_ERROR(client->Introduce(LoadersOf(config), options.input));
  return client;
}

Status LoaderClient::AbandonUnopened(const ClusterConfig& config, uint32_t loader,
                                     const Status& reason, std::stop_token stop) {
  SIMURGH_ASSIGN_OR_RETURN(const auto client, Connect(config, loader, stop));
  return client->Abandon(reason);
}

}  // namespace simurgh
