#pragma once

#include <list>
#include <memory>

#include "rpc/async.h"

namespace simurgh {

// Handlers that wait for a change.
//
// Threads: the executor's, but for WakeAll.
class Waiters : public std::enable_shared_from_this<Waiters> {
 public:
  explicit Waiters(rpc::asio::any_io_executor executor);

  // False when `deadline` passed first.
  [[nodiscard]] rpc::awaitable<bool> Wait(rpc::Clock::time_point deadline);

  // From any thread.
  void WakeAll();

 private:
  const rpc::asio::any_io_executor executor_;
  std::list<rpc::asio::steady_timer> timers_;
};

}  // namespace simurgh
