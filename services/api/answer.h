#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <utility>

#include "rpc/async.h"
#include "rpc/call.h"
#include "rpc/method.h"

namespace simurgh::api {

// Maximum wait of a call for a connection: long enough for a peer's restart, short enough that a
// batch soon moves to another worker and the log soon names the cause.
inline constexpr std::chrono::seconds kConnectionPatience{1};

inline rpc::CallOptions Patient(rpc::CallOptions options) {
  options.patience = kConnectionPatience;
  return options;
}

// Four fifths of the remaining time, so that the answer, which names the cause of a failure,
// reaches the caller before the caller's own deadline.
inline rpc::Clock::time_point AnswerBefore(rpc::Clock::time_point deadline) {
  if (deadline == rpc::Clock::time_point::max()) return deadline;
  const auto now = rpc::Clock::now();
  return now + (deadline - now) * 4 / 5;
}

}  // namespace simurgh::api

namespace simurgh {

// The result of a method's handler.
template <typename Method>
using Reply = rpc::awaitable<StatusOr<rpc::Outgoing<typename Method::Response>>>;

// A co_spawn completion that passes the coroutine's result to `done`. Only Asio and allocations
// throw, when a limit is reached.
template <typename Result>
auto CompleteWith(std::function<void(Result)> done) {
  return [done = std::move(done)](std::exception_ptr error, Result result) {
    done(error == nullptr ? std::move(result) : Result(rpc::StatusOfException(error)));
  };
}

}  // namespace simurgh
