#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/oracle.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/process_files.h"
#include "tests/simulation/server.h"
#include "tests/simulation/world.h"

namespace simurgh::simulation {

class Start;

// Servers, starts of training, the network between them and the disk; what restarts them, and the
// accidents that befall them.
class Cluster {
 public:
  Cluster(World& world, const Plan& plan, const Oracle& oracle);
  ~Cluster();

  // Runs until the model of the end is saved and every process has ended, or something is wrong.
  void Run();

  World& world() { return world_; }
  const Plan& plan() const { return plan_; }
  const Oracle& oracle() const { return oracle_; }
  Disk& disk() { return disk_; }

  // Sends a request to a server and calls done() once, unless the sender dies.
  template <typename Answer>
  void Call(Process& sender, uint32_t server,
            std::function<void(Server&, Server::Reply<Answer>)> send, Server::Reply<Answer> done) {
    const auto ended = std::make_shared<bool>(false);
    const std::function<void(StatusOr<Answer>)> end = [this, &sender, ended,
                                                       done](StatusOr<Answer> answer) {
      if (*ended || !sender.alive) return;
      *ended = true;
      // A sender that is paused finds the answer when it goes on.
      const Microseconds wait = std::max(sender.paused_until, world_.now()) - world_.now();
      if (wait == 0) return done(std::move(answer));
      world_.After(wait, [&sender, done, answer = std::move(answer)] {
        if (sender.alive) done(answer);
      });
    };
    const auto deliver = [this, server, send, end] {
      if (server >= servers_.size() || servers_[server] == nullptr) {
        return world_.After(Delay(), [end] { end(absl::AbortedError("a server is lost")); });
      }
      send(*servers_[server], [this, end](StatusOr<Answer> answer) {
        if (world_.Chance(plan_.lost_one_in)) return;
        world_.After(Delay(), [end, answer = std::move(answer)] { end(answer); });
      });
    };
    if (!world_.Chance(plan_.lost_one_in)) world_.After(Delay(), deliver);
    if (world_.Chance(plan_.repeated_one_in)) world_.After(2 * Delay(), deliver);
    world_.After(kCallTimeout,
                 [end] { end(absl::DeadlineExceededError("no answer from a server")); });
  }

  // A start of training has taken over the model: older ones must complete no checkpoint.
  void OnTakenOver(uint64_t generation);
  // A save has reported success.
  void OnSaved(uint64_t generation, uint64_t step);
  // Compares the servers' rows with the oracle's at the end of a training.
  void CheckServers(const Start& trained);

 private:
  static constexpr Microseconds kCallTimeout = 60'000;

  Microseconds Delay();
  void StartServer(uint32_t index);
  void KillServer(uint32_t index);
  void StartTraining();
  void KillTraining();
  // What restarts processes.
  void Supervise();
  void ScheduleFault();
  void Fault();
  void LosePower();

  // The newest checkpoint of the disk: its model is the oracle's, and no saved one is lost.
  void CheckDisk(bool is_end);
  bool compares_uses() const;
  bool compares_recency() const;

  World& world_;
  const Plan plan_;
  const Oracle& oracle_;
  Disk disk_;
  ClusterConfig config_;                          // Of the present servers and the newest start.
  std::vector<std::unique_ptr<Server>> servers_;  // Null: dead.
  std::vector<std::unique_ptr<Start>> starts_;    // The newest is the last.
  bool starts_training_ = false;                  // Soon.
  uint32_t faults_left_;
  bool fault_comes_ = false;
  bool is_over_ = false;
  uint64_t taken_over_ = 0;  // The newest generation that has taken over.
  std::set<uint64_t> generations_;
  std::pair<uint64_t, uint64_t> saved_{};  // The newest: generation and step.
};

}  // namespace simurgh::simulation
