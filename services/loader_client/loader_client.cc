#include "services/loader_client/loader_client.h"

#include <algorithm>
#include <future>
#include <optional>
#include <random>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "rpc/client.h"
#include "services/api/feed_codec.h"
#include "services/api/patience.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_options.h"
#include "simurgh/base/mutex.h"

namespace simurgh {
namespace {

constexpr size_t kBatchesUnderWay = 4;
constexpr size_t kLongestReason = 4'096;  // Bytes of a message.
constexpr std::chrono::milliseconds kShortestPause{20};
constexpr std::chrono::milliseconds kLongestPause{1'000};

rpc::Hello HelloOf(const ClusterConfig& config, uint32_t loader) {
  rpc::Hello hello;
  hello.cluster = config.name;
  hello.role = "loader";
  hello.index = loader;
  hello.instance_epoch = std::random_device()() | uint64_t{1};
  hello.configuration_hash = AgreementHash(config);
  return hello;
}

class RemoteLoaderClient final : public LoaderClient {
 public:
  RemoteLoaderClient(const ClusterConfig& config, uint32_t loader, const RpcOptions& rpc_options,
                     const std::stop_token& stop)
      : loader_(loader),
        call_timeout_(config.rpc.call_timeout),
        retry_deadline_(config.training.retry_deadline) {
    // Here, as it wants the thread, which is declared behind it.
    client_ =
        std::make_unique<rpc::Client>(thread_.executor(), config.nn_worker.instances[0].address,
                                      HelloOf(config, loader), rpc_options.client, nullptr);
    stopper_.emplace(stop, [this] {
      rpc::asio::post(thread_.executor(), [this] {
        stopped_ = true;
        client_->Stop();
      });
    });
  }

  ~RemoteLoaderClient() override {
    stopper_.reset();  // Its post, if there was one, comes before what follows.
    thread_.RunAndWait([this] {
      stopped_ = true;
      client_->Stop();
    });
    {
      MutexLock lock(mutex_);
      while (under_way_ > 0) changed_.Wait(mutex_);
    }
    thread_.RunAndWait([this] { client_.reset(); });
  }

  // The first call; all others but Abandon are only good after it.
  Status Introduce(uint32_t loaders, const std::vector<InputKey>& input) {
    const auto response = Wait(
        Persist(api::kOpenFeed, [&, this] { return api::EncodeOpen(loader_, loaders, input); }));
    if (!response.ok()) return response.status();
    taken_ = next_ = response->table().taken();
    return absl::OkStatus();
  }

  uint64_t taken() const override { return taken_; }

  StatusOr<bool> Feed(Batch batch, SkippedRows skipped) override {
    SIMURGH_ASSIGN_OR_RETURN(EncodedBatch encoded, EncodeBatch(*batch.sparse));
    auto fed = std::make_shared<const api::FedBatch>(
        api::FedBatch{std::move(encoded), std::move(batch.dense)});
    {
      MutexLock lock(mutex_);
      while (failure_.ok() && wanted_ && under_way_ >= kBatchesUnderWay) changed_.Wait(mutex_);
      if (!failure_.ok()) return failure_;
      if (!wanted_) return false;
      ++under_way_;
    }
    rpc::asio::co_spawn(thread_.executor(), Deliver(next_++, skipped, std::move(fed)),
                        rpc::asio::detached);
    return true;
  }

  Status End(SkippedRows skipped) override {
    {
      MutexLock lock(mutex_);
      while (under_way_ > 0) changed_.Wait(mutex_);
      if (!failure_.ok()) return failure_;
      if (!wanted_) return absl::OkStatus();  // And counts no more.
    }
    const auto response = Wait(Persist(api::kEndFeed, [=, this] {
      flatbuffers::FlatBufferBuilder builder;
      const api::wire::SkippedRows rows = api::EncodeSkipped(skipped);
      const auto root = api::wire::CreateEndFeedRequest(builder, loader_, next_, &rows);
      return rpc::Outgoing<api::EndFeed::Request>(builder, root);
    }));
    return response.status();
  }

  // Waits for no batch under way: there may be no room for it.
  Status Abandon(const Status& reason) override {
    const std::string error(reason.message().substr(0, kLongestReason));
    const auto response = Wait(Persist(api::kEndFeed, [&, this] {
      flatbuffers::FlatBufferBuilder builder;
      const auto text = builder.CreateString(error);
      const auto root =
          api::wire::CreateEndFeedRequest(builder, loader_, next_, /*skipped=*/nullptr, text);
      return rpc::Outgoing<api::EndFeed::Request>(builder, root);
    }));
    return response.status();
  }

 private:
  template <typename Result>
  Result Wait(rpc::awaitable<Result> task) {
    return rpc::asio::co_spawn(thread_.executor(), std::move(task), rpc::asio::use_future).get();
  }

  // Calls until there is an answer: a busy trainer is asked again at once, and without end; one
  // that cannot be reached with growing pauses, until the retry deadline.
  template <typename Request, typename Response, typename MakeRequest>
  [[nodiscard]] rpc::awaitable<StatusOr<rpc::Received<Response>>> Persist(
      rpc::MethodOf<Request, Response> method, MakeRequest make_request) {
    std::optional<rpc::Clock::time_point> failing_since;
    std::chrono::milliseconds pause = kShortestPause;
    rpc::asio::steady_timer timer(co_await rpc::asio::this_coro::executor);
    while (true) {
      const auto options = api::Patient({rpc::Clock::now() + call_timeout_});
      auto response = co_await rpc::Call(*client_, method, make_request(), options);
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
        co_return lost && !stopped_ ? Lost(status) : Annotate(status, "the nn-worker");
      }
      if (*failing_since == now) {
        spdlog::warn("nn-worker: {}; retrying for {} ms", std::string(status.message()),
                     retry_deadline_.count());
      }
      timer.expires_after(pause);
      co_await timer.async_wait(rpc::kNoThrow);
      pause = std::min(pause * 2, kLongestPause);
    }
  }

  static Status Lost(const Status& status) {
    return {status.code(),
            absl::StrCat("the nn-worker was lost for training.retry_deadline: ", status.message(),
                         "; see whether it runs, what its log says, and nn_worker.instances")};
  }

  [[nodiscard]] rpc::awaitable<void> Deliver(uint64_t number, SkippedRows skipped,
                                             std::shared_ptr<const api::FedBatch> batch) {
    const auto response = co_await Persist(
        api::kFeedBatch, [&] { return api::EncodeFeed(loader_, number, skipped, batch); });
    MutexLock lock(mutex_);
    --under_way_;
    if (!response.ok()) {
      if (failure_.ok()) failure_ = Annotate(response.status(), absl::StrCat("batch ", number));
    } else if (!response->table().wanted()) {
      wanted_ = false;
    }
    changed_.NotifyAll();
  }

  const uint32_t loader_;
  const std::chrono::milliseconds call_timeout_;
  const std::chrono::milliseconds retry_deadline_;
  uint64_t taken_ = 0;
  uint64_t next_ = 0;  // Number of the next batch.
  Mutex mutex_;
  CondVar changed_;
  size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool wanted_ ABSL_GUARDED_BY(mutex_) = true;
  Status failure_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<rpc::Client> client_;
  bool stopped_ = false;  // The thread's.
  IoThread thread_{"loader-rpc"};
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
