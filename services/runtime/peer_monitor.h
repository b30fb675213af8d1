#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "rpc/async.h"
#include "rpc/client.h"
#include "rpc/method.h"
#include "services/runtime/daemon.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/log_limiter.h"

namespace simurgh {

// A method of every daemon that listens: returns whether it can do its job.
// Errors: FAILED_PRECONDITION with the reason of /readyz; INVALID_ARGUMENT if only an operator can
// change that.
using Ready = rpc::MethodOf<rpc::MessageOf<rpc::NoTable>, rpc::MessageOf<rpc::NoTable>>;
inline constexpr Ready kReady{.number = 0x0001, .name = "ready"};

// Calls `ready` of a daemon's peers, again and again. /readyz and the log name the peers that it
// waits for: peers that cannot be reached, do not resolve, have another configuration or are not
// ready themselves. It has its own thread and connections, so calls never wait for data.
//
// Threads: one owner. Lifetime: `context` outlives this.
class PeerMonitor {
 public:
  struct Peer {
    std::string name;  // "embedding-ps 0"
    std::string address;
    rpc::ClientOptions options;
    bool must_be_ready = true;  // False: any answer suffices, because the peer waits for this one.
    // Whether Await returns an error if the peer and this daemon refuse each other. False for
    // daemons of this one's role: a stranger at the address of one must not end the others.
    bool ends_wait = true;
  };

  // Returns the peers of one section, without this daemon itself. role: their role in HELLO.
  static std::vector<Peer> PeersOf(const DaemonContext& context, const std::string& role,
                                   const std::vector<InstanceConfig>& instances,
                                   bool must_be_ready = true);

  PeerMonitor(DaemonContext& context, std::vector<Peer> peers);
  ~PeerMonitor() { Stop(); }

  // Waits until all peers are ready, without a deadline for as long as it takes.
  // Errors: CANCELLED after a stop; DEADLINE_EXCEEDED; INVALID_ARGUMENT or UNAUTHENTICATED if a
  // peer and this daemon refuse each other, which waiting cannot change; see Peer::ends_wait.
  Status Await(const std::stop_token& stop,
               std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt);

  // Ends the calls. /readyz keeps its last answer. Can be repeated.
  void Stop();

 private:
  struct Watched {
    Peer peer;
    std::unique_ptr<rpc::Client> client;  // Used on the thread only.
    Status status = absl::UnavailableError("not called yet");
    bool was_ready = false;
    LogLimiter log;
  };

  [[nodiscard]] rpc::awaitable<void> Watch(Watched& watched);
  void Note(Watched& watched, const Status& status);
  // Returns the first problem of all peers, with the number of others.
  Status Summary() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DaemonContext& context_;
  const LogLimiter::Clock::time_point started_ = LogLimiter::Clock::now();
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<Watched>> watched_;  // The mutex guards the statuses.
  bool stopped_ = false;                           // Used on the thread only.
  size_t calling_ = 0;                             // Running coroutines; used on the thread only.
  std::unique_ptr<IoThread> thread_;               // Null after Stop() and without peers.
  std::unique_ptr<rpc::WaitList> stop_;            // Used on the thread only.
};

}  // namespace simurgh
