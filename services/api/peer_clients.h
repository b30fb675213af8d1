#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/async.h"
#include "rpc/call.h"
#include "rpc/client.h"
#include "rpc/method.h"

namespace simurgh::api {

// Maximum wait of a call for a connection: long enough for a peer's restart, short enough that a
// batch soon moves to another worker and the log soon names the cause.
inline constexpr std::chrono::seconds kConnectionPatience{1};

inline rpc::CallOptions Patient(rpc::CallOptions options) {
  options.patience = kConnectionPatience;
  return options;
}

// Returns a deadline after four fifths of the remaining time, so that the answer, which names the
// cause of a failure, reaches the caller before the caller's own deadline.
inline rpc::Clock::time_point AnswerBefore(rpc::Clock::time_point deadline) {
  if (deadline == rpc::Clock::time_point::max()) return deadline;
  const auto now = rpc::Clock::now();
  return now + (deadline - now) * 4 / 5;
}

}  // namespace simurgh::api

namespace simurgh {

// A co_spawn completion that passes the coroutine's result to `done`. Only Asio and allocations
// throw, when a limit is reached.
template <typename Result>
auto CompleteWith(std::function<void(Result)> done) {
  return [done = std::move(done)](std::exception_ptr error, Result result) {
    done(error == nullptr ? std::move(result) : Result(rpc::StatusOfException(error)));
  };
}

// The connections to one peer.
//
// Some calls complete only after another call: a push after those of other ranks, a submit to a
// full buffer after a push that frees space. The requests of a connection share a window
// (rpc.peer_memory_bytes), so the second call could wait for the window of the first. A call of
// this kind therefore gets a dedicated connection. Later calls reuse it, so the number of
// connections is the maximum number of concurrent calls of this kind.
//
// Threads: the clients'. Lifetime: outlive every call.
class PeerClients {
 public:
  // Returns a dedicated client to its owner at the end of a call.
  struct Return {
    PeerClients* owner = nullptr;
    void operator()(rpc::Client* client) const {
      if (owner != nullptr) owner->free_.push_back(client);
    }
  };
  using Use = std::unique_ptr<rpc::Client, Return>;

  // Arguments: see rpc::Client.
  PeerClients(rpc::asio::any_io_executor executor, std::string address, rpc::Hello hello,
              rpc::ClientOptions options, rpc::Observer* observer);

  // Returns the connection of all calls that do not wait for other calls.
  Use shared();
  // Returns a connection for one call that may wait for other calls.
  Use dedicated();
  // Creates a connection that Stop() does not end. Destroy it on the executor's thread.
  std::unique_ptr<rpc::Client> separate() const;

  // Fails pending and later calls with CANCELLED.
  void Stop();

 private:
  rpc::Client& Add();

  const rpc::asio::any_io_executor executor_;
  const std::string address_;
  const rpc::Hello hello_;
  const rpc::ClientOptions options_;
  rpc::Observer* const observer_;
  bool stopped_ = false;
  std::vector<std::unique_ptr<rpc::Client>> clients_;
  rpc::Client* shared_ = nullptr;   // Created by the first use.
  std::vector<rpc::Client*> free_;  // Idle dedicated clients.
};

}  // namespace simurgh
