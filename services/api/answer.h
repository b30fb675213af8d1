#pragma once

#include <exception>
#include <functional>
#include <utility>

#include "rpc/async.h"
#include "rpc/method.h"

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
