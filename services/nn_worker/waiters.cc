#include "services/nn_worker/waiters.h"

#include <utility>

namespace simurgh {

Waiters::Waiters(rpc::asio::any_io_executor executor) : executor_(std::move(executor)) {}

rpc::awaitable<bool> Waiters::Wait(rpc::Clock::time_point deadline) {
  const auto self = shared_from_this();
  const auto place = timers_.emplace(timers_.end(), executor_, deadline);
  const auto [error] = co_await place->async_wait(rpc::kNoThrow);
  timers_.erase(place);
  co_return error == rpc::asio::error::operation_aborted;
}

void Waiters::WakeAll() {
  rpc::asio::post(executor_, [self = shared_from_this()] {
    for (rpc::asio::steady_timer& timer : self->timers_) timer.cancel();
  });
}

}  // namespace simurgh
