#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

#include "base/mutex.h"
#include "base/status.h"
#include "collective/collective.h"
#include "rpc/async.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "services/api/methods.h"
#include "services/api/reply.h"
#include "services/runtime/io_thread.h"

namespace simurgh {

// Messages among the ranks of a run. Each rank serves the others and calls them.
//
// A call of `exchange` carries a message. The receiver takes it at once, also before the call that
// needs it. A call of `await_end` to every other rank lasts until that rank ends, and returns the
// reason. If its connection is lost first, the rank is at fault. The call has its own connection,
// since it would take a share of the other one's window.
//
// Threads: see Collective. Register on the server's thread; Start and End on one other thread.
// Lifetime: outlives the server and its thread.
class RankMesh {
 public:
  struct Options {
    uint32_t rank = 0;
    uint32_t ranks = 1;
    std::chrono::milliseconds timeout{120'000};  // See Collective; kLoading has none.
  };

  // Connects to a rank.
  using Dial = std::function<std::unique_ptr<rpc::Client>(uint32_t rank)>;

  // thread: the thread of the server.
  RankMesh(IoThread& thread, const Options& options);

  void Register(rpc::Server& server);

  // Refuses ranks of other runs from now on. Call it before Start, if the run is known: ranks of a
  // run that has lost its rank 0 then fail at once.
  void Expect(uint64_t run);

  // Connects to the other ranks of the run and waits for them. Call End afterwards in any case.
  Status Start(uint64_t run, const Dial& dial);
  // Delivers the messages that were sent, unless the mesh has failed, and disconnects.
  void End();

  uint32_t rank() const { return options_.rank; }
  uint32_t ranks() const { return options_.ranks; }

  // Returns memory for the channel's next message to a rank. Lifetime: until the exchange after it
  // has ended, when all ranks have read the message.
  std::span<std::byte> Outgoing(Channel channel, uint32_t peer, size_t bytes);

  // Messages indexed by rank; empty for this one.
  using Messages = std::vector<rpc::ReceivedSegment>;

  // Sends the channel's outgoing messages, calls `meanwhile` and waits for the others' messages.
  // expected: number of bytes of each, indexed by rank.
  StatusOr<Messages> Exchange(Channel channel, std::span<const size_t> expected,
                              absl::FunctionRef<void()> meanwhile);

  // See Collective.
  void Close(Channel channel);
  void Abort(const Status& reason);
  Status AwaitLoss(std::chrono::milliseconds patience);

 private:
  template <typename T>
  using PerChannel = std::array<T, kChannels>;

  // Messages of one channel from and to one rank. No rank is more than one exchange ahead of
  // another, so two messages can wait, and two buffers alternate.
  struct Line {
    std::array<rpc::SegmentBuffer, 2> buffers;  // Indexed by message number modulo 2.
    size_t outgoing = 0;                        // Bytes of the next message.
    // Guarded by mutex_:
    std::array<std::optional<rpc::ReceivedSegment>, 2> arrived;  // Indexed by number modulo 2.
    uint64_t taken = 0;                                          // Number of the next to take.
  };

  // The first error. Not a Status, which threads must not share.
  struct Failure {
    absl::StatusCode code = absl::StatusCode::kUnknown;
    std::string own;          // Message for this rank.
    std::string others = {};  // Message for the other ranks; empty: the same.
  };

  std::string NameOf(uint32_t rank) const;  // Returns the rank's name for messages.
  Line& LineOf(Channel channel, uint32_t peer) {
    return lines_[static_cast<size_t>(channel)][peer];
  }

  // Returns ok unless the mesh has failed or the channel is closed.
  Status StatusOf(Channel channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records the first failure and answers the other ranks. Returns the recorded one.
  Status Fail(Failure failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records that a rank is gone.
  Status FailByLoss(uint32_t peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return Fail({absl::StatusCode::kUnavailable, absl::StrCat(NameOf(peer), " disconnected: ",
                                                              gone_[peer], "; restart all ranks")});
  }
  // Waits for a message.
  StatusOr<rpc::ReceivedSegment> Take(Channel channel, uint32_t peer, uint64_t number,
                                      size_t expected);

  // The rest runs on the server's thread.

  // Starts a coroutine that End waits for.
  void Spawn(rpc::awaitable<void> task);
  [[nodiscard]] rpc::awaitable<void> Send(uint32_t peer, Channel channel, uint64_t number,
                                          rpc::OutgoingSegment part);
  // Waits for the end of a rank.
  [[nodiscard]] rpc::awaitable<void> Attend(uint32_t peer);
  [[nodiscard]] rpc::awaitable<void> Disconnect();
  [[nodiscard]] Reply<api::Exchange> OnExchange(rpc::RequestOf<api::Exchange::Request> request);
  [[nodiscard]] Reply<api::AwaitEnd> OnAwaitEnd(rpc::RequestOf<api::AwaitEnd::Request> request);
  std::optional<Failure> FailureSoFar();
  // Checks a request's sender and run; waits until this rank has joined one.
  [[nodiscard]] rpc::awaitable<Status> Admit(const rpc::Hello& sender, uint64_t run,
                                             rpc::Clock::time_point deadline);
  // Keeps a message for Take.
  Status Put(uint32_t peer, uint8_t channel, uint64_t number, rpc::ReceivedSegment part);

  IoThread& thread_;
  const Options options_;
  std::vector<uint32_t> peers_;  // The other ranks, from the next one on: spreads the load.
  PerChannel<uint64_t> next_{};  // Number of the next message of each channel.

  // The following members are used on the server's thread only.
  uint64_t run_ = 0;  // 0 before Expect and Start.
  bool ended_ = false;
  size_t sending_ = 0;                                  // Number of running calls of exchange.
  size_t tasks_ = 0;                                    // Coroutines that End waits for.
  std::vector<std::unique_ptr<rpc::Client>> clients_;   // Indexed by rank; null for this one.
  std::vector<std::unique_ptr<rpc::Client>> watchers_;  // Clients of await_end, indexed by rank.
  rpc::WaitList changes_;  // Notified when any of these changes, or the mesh fails.

  Mutex mutex_;
  PerChannel<CondVar> changed_;
  PerChannel<std::vector<Line>> lines_;  // Indexed by rank. mutex_ guards a part of each.
  PerChannel<bool> closed_ ABSL_GUARDED_BY(mutex_){};
  std::vector<std::string> gone_ ABSL_GUARDED_BY(mutex_);  // Why each rank left; empty: connected.
  std::optional<Failure> failure_ ABSL_GUARDED_BY(mutex_);
};

// Returns sums and gathers over a mesh; the destructor ends the mesh. Sums use a direct
// reduce-scatter and all-gather, which keep the rank order; two ranks in f32 use an all-gather.
// Lifetime: the mesh outlives it.
std::unique_ptr<Collective> NewRankCollective(RankMesh& mesh);

}  // namespace simurgh
