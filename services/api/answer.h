#pragma once

#include <exception>
#include <functional>
#include <utility>

#include "simurgh/base/check.h"

namespace simurgh {

// A co_spawn completion that passes the coroutine's result to `done`. Our coroutines do not throw.
template <typename Result>
auto CompleteWith(std::function<void(Result)> done) {
  return [done = std::move(done)](std::exception_ptr error, Result result) {
    SIMURGH_CHECK(error == nullptr);
    done(std::move(result));
  };
}

}  // namespace simurgh
