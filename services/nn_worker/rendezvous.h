#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collective/collective.h"
#include "rpc/async.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "services/api/methods.h"
#include "services/api/reply.h"
#include "services/nn_worker/rank_mesh.h"
#include "services/runtime/daemon.h"
#include "services/runtime/rpc_setup.h"

namespace simurgh {

// The meeting point of a run's ranks, on rank 0.
//
// Threads: the server's. Lifetime: outlives the server and its thread.
class Rendezvous {
 public:
  // plan: settings that all ranks must agree on, see SettingsDifference. executor: of the server.
  // on_restart: called when a rank arrives again after all have arrived.
  Rendezvous(rpc::asio::any_io_executor executor, uint32_t ranks, std::string plan,
             std::function<void(uint32_t rank)> on_restart)
      : plan_(std::move(plan)),
        on_restart_(std::move(on_restart)),
        incarnations_(ranks),
        changes_(std::move(executor)) {}

  // Sets the number of the run. Call before rank 0 arrives.
  void Begin(uint64_t run) { run_ = run; }
  // Training has ended, and rank 0 saves the model. A rank that was lost meanwhile waits for
  // EndSave and then starts again: it finds the model.
  void BeginSave() { phase_ = Phase::kSaves; }
  void EndSave() {
    phase_ = Phase::kOver;
    changes_.NotifyAll();
  }
  void Register(rpc::Server& server);

  // Adds a rank, the process of this incarnation. Until all have arrived, a rank may be restarted.
  // Errors: INVALID_ARGUMENT for a rank out of range, another number of ranks or another plan;
  // ABORTED for another incarnation after all have arrived: the run is over, and the next one has
  // another rank 0; FAILED_PRECONDITION for a rank that continues from another checkpoint, and then
  // for all ranks: one of them searched for it before another start had saved.
  Status Arrive(uint32_t rank, uint32_t ranks, const std::string& plan, uint64_t incarnation);

  // Returns an empty text when all have arrived, else "ranks 1, 3".
  std::string Missing() const;

 private:
  enum class Phase : uint8_t { kTrains, kSaves, kOver };

  [[nodiscard]] Reply<api::MeetRanks> OnMeet(rpc::RequestOf<api::MeetRanks::Request> request);

  const std::string plan_;
  const std::function<void(uint32_t rank)> on_restart_;
  uint64_t run_ = 0;
  Status conflict_;
  std::vector<std::optional<uint64_t>> incarnations_;  // Indexed by rank.
  Phase phase_ = Phase::kTrains;
  rpc::WaitList changes_;  // Notified when the last rank arrives, and of conflict_ and phase_.
};

// Calls rank 0 until all ranks have arrived, or until `deadline`. All ranks call this, rank 0 too.
// Returns the run. Errors: those of Rendezvous::Arrive, but ABORTED for ranks that continue from
// different checkpoints; DEADLINE_EXCEEDED, naming the missing ranks or the last failure.
[[nodiscard]] rpc::awaitable<StatusOr<uint64_t>> MeetRanks(rpc::Client& client, uint32_t rank,
                                                           uint32_t ranks, std::string plan,
                                                           rpc::Clock::time_point deadline);

// A run that all ranks have joined.
struct JointRun {
  std::unique_ptr<Collective> collective;
  uint64_t run = 0;  // Equal on all ranks.
};

// Connects the nn-workers of a configuration. Rank 0 numbers the run, and each connects to all.
//
// Threads: the daemon's main thread. Lifetime: outlives the server and its thread.
class Ranks {
 public:
  // plan: see Rendezvous. thread: the thread of the server.
  Ranks(DaemonContext& context, std::string plan, IoThread& thread);

  // Registers the methods for other ranks.
  void Register(rpc::Server& server);

  // Waits until all ranks are connected. run: number of this process's run; all ranks use the one
  // of rank 0. The collective must end before this object. Errors: those of Rendezvous, MeetRanks
  // and RankMesh; CANCELLED after a stop.
  StatusOr<JointRun> Join(uint64_t run, const std::stop_token& stop);

  // See Rendezvous. Call on rank 0, after Join.
  void BeginSave() {
    thread_.RunAndWait([this] { rendezvous_.BeginSave(); });
  }
  void EndSave() {
    thread_.RunAndWait([this] { rendezvous_.EndSave(); });
  }

 private:
  std::unique_ptr<rpc::Client> Dial(uint32_t rank);
  // Returns the number of the run.
  StatusOr<uint64_t> Meet(const std::stop_token& stop);

  DaemonContext& context_;
  IoThread& thread_;
  const std::string plan_;
  RpcMetrics observer_;
  Rendezvous rendezvous_;  // Used on rank 0 only.
  RankMesh mesh_;
};

}  // namespace simurgh
