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

#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "config/statistics.h"
#include "data/reading/batch_reader.h"
#include "model/model_directory.h"
#include "services/api/loader_rpc.h"
#include "services/api/peer_clients.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_setup.h"

namespace simurgh {
namespace {

constexpr size_t kMaxInFlight = 4;  // Number of batches per nn-worker.
constexpr size_t kMaxReasonBytes = 4'096;
constexpr std::chrono::milliseconds kMinPause{20};
constexpr std::chrono::milliseconds kMaxPause{1'000};

// An nn-worker that receives batches.
struct Rank {
  uint32_t number = 0;
  std::string name;
  std::unique_ptr<PeerClients> clients;  // Used on the thread only.
  uint64_t taken = 0;                    // Batches that it had when this loader connected.
  std::string position;                  // OpenFeedResponse.position.
  uint64_t session = 0;                  // OpenFeedResponse.session for a stream, else 0.
  // The loader's mutex guards the following.
  size_t in_flight = 0;
  bool wanted = true;  // The rank needs more batches.
};

class RemoteLoaderClient final : public LoaderClient {
 public:
  RemoteLoaderClient(const ClusterConfig& config, const LoaderClientOptions& options,
                     const RpcOptions& rpc_options, const std::stop_token& stop)
      : loader_(options.loader),
        call_timeout_(config.rpc.call_timeout),
        retry_deadline_(config.training.retry_deadline),
        in_step_(config.reads_in_step()),
        is_stream_(options.stream),
        ranks_(config.nn_worker.instances.size()),
        thread_("loader-rpc", config.rpc.spin) {
    const rpc::Hello hello{.cluster = config.name,
                           .role = "loader",
                           .index = loader_,
                           .incarnation = std::random_device()() | uint64_t{1},
                           .configuration = ClusterAgreement(config)};
    // The initializers cannot make the clients, which need a member declared later: the thread.
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].number = r;
      ranks_[r].name = ranks_.size() == 1 ? "the nn-worker" : absl::StrCat("nn-worker ", r);
      const std::vector<InstanceConfig>& peers = config.nn_worker.instances;
      ranks_[r].clients = std::make_unique<PeerClients>(
          thread_.executor(), peers[r].address, hello,
          OptionsFor(rpc_options.client, "nn-worker", peers, r), options.observer);
    }
    stopper_.emplace(stop, [this] { rpc::asio::post(thread_.executor(), [this] { Stop(); }); });
  }

  ~RemoteLoaderClient() override {
    stopper_.reset();  // A post by it runs before the following ones.
    thread_.RunAndWait([this] { Stop(); });
    {
      MutexLock lock(mutex_);
      while (AnyInFlight()) changed_.Wait(mutex_);
    }
    thread_.RunAndWait([this] {
      for (Rank& rank : ranks_) rank.clients.reset();
    });
  }

  // Call before all others but Abandon.
  Status Introduce(uint32_t loaders, const std::string& input) {
    const auto ranks = static_cast<uint32_t>(ranks_.size());
    SIMURGH_RETURN_IF_ERROR(CallAll([&, this](Rank& rank) -> rpc::awaitable<Status> {
      const auto response = co_await Persist(rank, api::kOpenFeed, [&] {
        return api::EncodeOpen(loader_, loaders, rank.number, ranks, input);
      });
      if (response.ok()) {
        rank.taken = response->table().taken();
        if (is_stream_) rank.session = response->table().session();
        const auto* const position = response->table().position();
        if (position != nullptr) rank.position = position->str();
      }
      co_return response.status();
    }));
    for (const Rank& rank : ranks_) {
      StatusOr<DataPosition> begin = DataPosition::FromText(rank.position);
      if (!begin.ok()) return Annotate(begin.status(), rank.name);
      if (rank.number == 0) begin_ = *begin;
      begin_.Merge(begin->offsets());
    }
    const Status gap = is_stream_ ? CheckGap() : absl::OkStatus();
    if (gap.ok()) return gap;
    const std::string error(gap.message());
    static_cast<void>(CallAll([&, this](Rank& rank) {
      return SendEnd(rank, 0, {}, error, /*short_step=*/false, /*start_again=*/true);
    }));
    return gap;
  }

  const DataPosition& begin() const override { return begin_; }

  uint64_t taken() const override {
    uint64_t all = 0;
    for (const Rank& rank : ranks_) all += rank.taken;
    return all;
  }

  bool HasTaken(uint64_t number) const override {
    return number / ranks_.size() < ranks_[number % ranks_.size()].taken;
  }

  StatusOr<bool> Feed(Batch batch, uint64_t skipped) override {
    api::FedBatch made{
        .dense = std::move(batch.dense), .progress = std::move(batch.progress), .idle = batch.idle};
    if (!batch.idle) {
      SIMURGH_ASSIGN_OR_RETURN(made.sparse, EncodeBatch(*batch.sparse));
    }
    auto fed = std::make_shared<const api::FedBatch>(std::move(made));
    const uint64_t number = NextNumber();
    Rank& rank = ranks_[number % ranks_.size()];
    {
      MutexLock lock(mutex_);
      while (failure_.ok() && rank.wanted && rank.in_flight >= kMaxInFlight) {
        changed_.Wait(mutex_);
      }
      if (!failure_.ok()) return failure_;
      if (std::ranges::none_of(ranks_, &Rank::wanted)) return false;
      ++next_;
      if (!rank.wanted) return true;
      ++rank.in_flight;
    }
    rpc::asio::co_spawn(thread_.executor(), Deliver(rank, number, skipped, std::move(fed)),
                        rpc::asio::detached);
    return true;
  }

  Status End(uint64_t skipped) override {
    {
      MutexLock lock(mutex_);
      while (failure_.ok() && AnyInFlight()) changed_.Wait(mutex_);
      if (!failure_.ok()) return failure_;
    }
    const uint64_t batches = NextNumber();
    return CallAll([=, this](Rank& rank) -> rpc::awaitable<Status> {
      {
        MutexLock lock(mutex_);
        if (!rank.wanted) co_return absl::OkStatus();
      }
      const uint64_t steps = (batches + ranks_.size() - 1) / ranks_.size();
      const uint64_t others = ranks_.size() - 1 - rank.number;
      const uint64_t own = (batches + others) / ranks_.size();
      co_return co_await SendEnd(rank, own, skipped, {}, in_step_ && own < steps);
    });
  }

  // Does not wait for batches in flight, which may wait for space.
  Status Abandon(const Status& reason) override {
    const std::string error(reason.message().substr(0, kMaxReasonBytes));
    return CallAll([&, this](Rank& rank) { return SendEnd(rank, 0, {}, error); });
  }

 private:
  // Fails if a rank of a stream lacks a batch before one that another rank has taken: the offsets
  // of a later batch do not show which records were in an earlier one.
  Status CheckGap() const {
    uint64_t number = 0;
    while (HasTaken(number)) ++number;
    if (number == taken()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("an earlier process of this loader was lost between the batches of a step: ",
                     ranks_[number % ranks_.size()].name, " lacks batch ", number,
                     ", and others have later ones; training can only continue from its last "
                     "checkpoint"));
  }

  bool AnyInFlight() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.in_flight > 0; });
  }

  // Threads: thread_.
  void Stop() {
    stopped_ = true;
    for (Rank& rank : ranks_) rank.clients->Stop();
  }

  // Returns the number of the next batch to feed.
  uint64_t NextNumber() {
    while (HasTaken(next_)) ++next_;
    return next_;
  }

  // Runs call(rank) for all ranks concurrently. Returns the error of the lowest rank.
  template <typename Call>
  Status CallAll(const Call& call) {
    std::vector<std::future<Status>> answers;
    for (Rank& rank : ranks_) {
      answers.push_back(rpc::asio::co_spawn(thread_.executor(), call(rank), rpc::asio::use_future));
    }
    Status first;
    for (std::future<Status>& answer : answers) first.Update(answer.get());
    return first;
  }

  // error: empty if the share is complete.
  [[nodiscard]] rpc::awaitable<Status> SendEnd(Rank& rank, uint64_t batches, uint64_t skipped,
                                               std::string error, bool short_step = false,
                                               bool start_again = false) {
    const auto response = co_await Persist(rank, api::kEndFeed, [&] {
      flatbuffers::FlatBufferBuilder builder;
      flatbuffers::Offset<flatbuffers::String> text;
      if (!error.empty()) text = builder.CreateString(error);
      const auto root = api::wire::CreateEndFeedRequest(
          builder, loader_, batches, ReportedTo(rank, skipped), text, short_step, start_again);
      return rpc::Outgoing<api::EndFeed::Request>(builder, root);
    });
    co_return response.status();
  }

  // Repeats a call until there is an answer. A busy trainer is called again at once, without limit;
  // an unreachable one with growing pauses, until the retry deadline. The connection is dedicated,
  // because batches wait for earlier ones and for space.
  template <typename Request, typename Response, typename MakeRequest>
  [[nodiscard]] rpc::awaitable<StatusOr<rpc::Received<Response>>> Persist(
      Rank& rank, rpc::MethodOf<Request, Response> method, MakeRequest make_request) {
    const rpc::Trace trace{.trace_id = traces_() | 1};  // Never 0.
    std::optional<rpc::Clock::time_point> failing_since;
    std::chrono::milliseconds pause = kMinPause;
    rpc::asio::steady_timer timer(co_await rpc::asio::this_coro::executor);
    const auto client = rank.clients->dedicated();
    for (uint64_t attempt = 0;; ++attempt) {
      const auto options = api::Patient({rpc::Clock::now() + call_timeout_, trace.Child(attempt)});
      auto response = co_await rpc::Call(*client, method, make_request(), options);
      if (response.ok()) co_return std::move(response);
      const Status& status = response.status();
      if (absl::IsResourceExhausted(status)) {
        failing_since.reset();
        pause = kMinPause;
        continue;
      }
      const auto now = rpc::Clock::now();
      if (!failing_since) failing_since = now;
      const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
      if (stopped_ || !lost || now + pause > *failing_since + retry_deadline_) {
        if (!lost || stopped_) co_return Annotate(status, rank.name);
        co_return Status(
            status.code(),
            absl::StrCat(rank.name, " was lost for training.retry_deadline: ", status.message(),
                         "; check that it runs, its log, and "
                         "nn_worker.instances"));
      }
      if (*failing_since == now) {
        spdlog::warn("{}: {}; retrying for {} ms", rank.name, std::string(status.message()),
                     retry_deadline_.count());
      }
      timer.expires_after(pause);
      co_await timer.async_wait(rpc::kNoThrow);
      pause = std::min(pause * 2, kMaxPause);
    }
  }

  // Returns the number to report to a rank: rank 0 counts the bad rows.
  static uint64_t ReportedTo(const Rank& rank, uint64_t skipped) {
    return rank.number == 0 ? skipped : 0;
  }

  [[nodiscard]] rpc::awaitable<void> Deliver(Rank& rank, uint64_t number, uint64_t skipped,
                                             std::shared_ptr<const api::FedBatch> batch) {
    const uint64_t of_rank = number / ranks_.size();
    const auto response = co_await Persist(rank, api::kFeedBatch, [&] {
      return api::EncodeFeed(loader_, of_rank, ReportedTo(rank, skipped), batch, rank.session);
    });
    if (!response.ok()) {
      co_await Fail(rank, Annotate(response.status(), absl::StrCat("batch ", number)));
    }
    MutexLock lock(mutex_);
    --rank.in_flight;
    if (response.ok() && !response->table().wanted()) rank.wanted = false;
    changed_.NotifyAll();
  }

  // Keeps the first failure. If an nn-worker is lost, reports it to the others first: they wait for
  // batches, and would otherwise blame this loader.
  [[nodiscard]] rpc::awaitable<void> Fail(const Rank& failed, Status status) {
    if (std::exchange(failing_, true)) co_return;
    const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if (lost && !stopped_) {
      const std::string error(status.message().substr(0, kMaxReasonBytes));
      std::vector<rpc::awaitable<Status>> reports;
      for (Rank& rank : ranks_) {
        if (&rank != &failed) reports.push_back(SendEnd(rank, 0, {}, error));
      }
      static_cast<void>(co_await rpc::WhenAll(std::move(reports)));
    }
    MutexLock lock(mutex_);
    failure_ = std::move(status);
  }

  const uint32_t loader_;
  const std::chrono::milliseconds call_timeout_;
  const std::chrono::milliseconds retry_deadline_;
  const bool in_step_;  // See ClusterConfig::reads_in_step.
  const bool is_stream_;
  DataPosition begin_;
  uint64_t next_ = 0;  // Number of the next batch, unless a rank has taken it.
  Mutex mutex_;
  CondVar changed_;
  Status failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<Rank> ranks_;
  // Threads: thread_.
  bool stopped_ = false;
  bool failing_ = false;
  Random traces_{std::random_device()()};
  IoThread thread_;
  std::optional<std::stop_callback<std::function<void()>>> stopper_;
};

uint32_t LoadersOf(const ClusterConfig& config) {
  return static_cast<uint32_t>(config.loaders.instances.size());
}

StatusOr<std::unique_ptr<RemoteLoaderClient>> Connect(const ClusterConfig& config,
                                                      const LoaderClientOptions& options,
                                                      const std::stop_token& stop) {
  const uint32_t loader = options.loader;
  if (loader >= LoadersOf(config)) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader ", loader, ": the configuration has ", LoadersOf(config),
                     LoadersOf(config) == 1 ? " entry" : " entries",
                     " in loaders.instances; add one, or use a smaller number, from 0"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const RpcOptions rpc_options, MakeRpcOptions(config.rpc));
  return std::make_unique<RemoteLoaderClient>(config, options, rpc_options, stop);
}

}  // namespace

StatusOr<std::unique_ptr<LoaderClient>> LoaderClient::Open(const ClusterConfig& config,
                                                           const LoaderClientOptions& options,
                                                           std::stop_token stop) {
  SIMURGH_ASSIGN_OR_RETURN(auto client, Connect(config, options, stop));
  SIMURGH_RETURN_IF_ERROR(client->Introduce(LoadersOf(config), options.input));
  return client;
}

Status LoaderClient::AbandonUnopened(const ClusterConfig& config, uint32_t loader,
                                     const Status& reason, std::stop_token stop) {
  SIMURGH_ASSIGN_OR_RETURN(const auto client, Connect(config, {.loader = loader}, stop));
  return client->Abandon(reason);
}

Status SetLoaderStatistics(ClusterConfig& config, FileIdentities* identities) {
  const std::string& model = config.checkpoint.directory;
  if (!model.empty()) {
    const StatusOr<ModelDirectory::Newest> newest = ModelDirectory(model).Latest();
    if (newest.ok()) {
      const Manifest& manifest = newest->checkpoint.manifest;
      const Status applied = ApplyStatistics(manifest.statistics, config.data, config.features);
      return applied.ok() ? applied : Annotate(applied, newest->checkpoint.folder);
    }
    if (!absl::IsNotFound(newest.status())) return newest.status();
  }
  return FitStatistics(config.data, config.features, identities);
}

}  // namespace simurgh
