#pragma once

#include <exception>
#include <functional>
#include <utility>

#include "rpc/method.h"
#include "simurgh/base/check.h"

namespace simurgh {

// The result of a method's handler.
template <typename Method>
using Reply = rpc::awaitable<StatusOr<rpc::Outgoing<typename Method::Response>>>;

// A co_spawn completion that passes the coroutine's result to `done`. Our coroutines do not throw.
template <typename Result>
auto CompleteWith(std::function<void(Result)> done) {
  return [done = std::move(done)](std::exception_ptr error, Result result) {
    SIMURGH_CHECK(error == nullptr);
    done(std::move(result));
  };
}

}  // namespace simurgh
