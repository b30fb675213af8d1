#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "rpc/method.h"
#include "services/api/methods.h"
#include "services/api/peer_clients.h"
#include "services/api/reply.h"

namespace simurgh {

// Answers the supervisors of other hosts whether training continues and how it ends, and stops it
// for them.
//
// Threads: any; `waiting` is called on the server's. Lifetime: outlives the server.
class TrainingEnd {
 public:
  // waiting: returns why training has not begun, or ok.
  TrainingEnd(std::stop_source stop, std::function<Status()> waiting)
      : stop_(std::move(stop)), waiting_(std::move(waiting)) {}

  void Register(rpc::Server& server) {
    rpc::Register(server, api::kAwaitTraining,
                  [this](auto request) { return OnAwait(std::move(request)); });
    rpc::Register(server, api::kStopTraining, [this](auto request) { return OnStop(request); });
  }

  // Notes that the nn-worker starts again: calls end.
  void Leave() { is_gone_ = true; }

  // Notes that training has ended with this status. Returns when all recent callers have the
  // answer, or after a short time.
  void Tell(const Status& status) {
    constexpr std::chrono::seconds kGrace{2};
    const auto deadline = Clock::now() + kGrace;
    const MutexLock lock(mutex_);
    end_ = status;
    ForgetOld();
    while (!asked_.empty() && told_.WaitUntil(mutex_, deadline)) {
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kLook{50};
  static constexpr std::chrono::seconds kForgotten{30};  // Longer than any call.

  void ForgetOld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(asked_, [](const auto& one) { return Clock::now() - one.second > kForgotten; });
  }

  [[nodiscard]] Reply<api::AwaitTraining> OnAwait(
      rpc::RequestOf<api::AwaitTraining::Request> request) {
    const uint64_t caller = request.peer().incarnation;
    auto until = api::AnswerBefore(std::min(request.deadline(), Clock::now() + kForgotten));
    {
      const MutexLock lock(mutex_);
      ForgetOld();
      const bool is_first = !asked_.contains(caller);
      asked_[caller] = Clock::now();
      if (is_first) until = Clock::now();  // Answers at once that this rank is there.
    }
    rpc::asio::steady_timer timer(co_await rpc::asio::this_coro::executor);
    std::optional<Status> end = EndFor(caller);
    while (!end && !is_gone_ && Clock::now() < until) {
      timer.expires_after(kLook);
      co_await timer.async_wait(rpc::kNoThrow);
      end = EndFor(caller);
    }
    if (!end && is_gone_) co_return absl::UnavailableError("the nn-worker starts again");
    if (!end) {
      const Status waiting = waiting_();
      if (!waiting.ok()) co_return absl::FailedPreconditionError(waiting.message());
      co_return absl::ResourceExhaustedError("training continues");
    }
    flatbuffers::FlatBufferBuilder builder;
    const auto reason = builder.CreateString(std::string(end->message()));
    const auto root =
        api::wire::CreateAwaitEndResponse(builder, static_cast<uint32_t>(end->code()), reason);
    co_return rpc::Outgoing<api::AwaitTraining::Response>(builder, root);
  }

  // Returns the end for a caller; nothing while training continues.
  std::optional<Status> EndFor(uint64_t caller) {
    const MutexLock lock(mutex_);
    if (!end_) return std::nullopt;
    asked_.erase(caller);
    told_.NotifyAll();
    return end_;
  }

  [[nodiscard]] Reply<api::StopTraining> OnStop(
      rpc::RequestOf<api::StopTraining::Request> /*request*/) {
    spdlog::info("another host stops training");
    stop_.request_stop();
    co_return rpc::Outgoing<api::StopTraining::Response>();
  }

  std::stop_source stop_;
  const std::function<Status()> waiting_;
  std::atomic<bool> is_gone_ = false;
  Mutex mutex_;
  CondVar told_;
  std::optional<Status> end_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Clock::time_point> asked_ ABSL_GUARDED_BY(mutex_);  // Callers without answer.
};

}  // namespace simurgh
