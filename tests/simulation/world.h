#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "tests/simulation/fiber.h"

namespace simurgh::simulation {

using Clock = std::chrono::steady_clock;
using Microseconds = uint64_t;

// A process of the simulation. Its fibers stand for its threads. Lifetime: the world's.
struct Process {
  std::string name;
  bool alive = true;
  Microseconds paused_until = 0;  // It does nothing before.
  std::list<std::shared_ptr<Fiber>> fibers = {};
};

// Clock, events, chance and the record of a run.
class World {
 public:
  World(uint64_t seed, bool prints) : random(seed), prints_(prints) {}

  Microseconds now() const { return now_; }
  // Never the epoch, which some code takes for "never".
  Clock::time_point time() const {
    return Clock::time_point(std::chrono::hours(1) + std::chrono::microseconds(now_));
  }

  void After(Microseconds delay, std::function<void()> event);
  // Runs the next event. Returns false if there is none.
  bool RunOne();
  uint64_t events() const { return events_; }

  // Adds a process.
  Process& AddProcess(const std::string& name) { return processes_.emplace_back(Process{name}); }

  // Starts a fiber of a process. It ends early once the process has died.
  std::shared_ptr<Fiber> Start(Process& process, std::function<void()> body);
  // Lets the current fiber, of this process, wait. Returns false at once if the process is dead, or
  // when it dies meanwhile.
  bool Pause(Process& process, Microseconds delay);
  // Waits until ready() is true; false as Pause().
  template <typename Ready>
  bool Await(Process& process, const Ready& ready) {
    while (!ready()) {
      if (!Pause(process, 20 + random.Below(200))) return false;
    }
    return process.alive;
  }
  // Runs the fibers of a dead process to their ends.
  static void Drain(Process& process);

  bool Chance(uint64_t one_in) { return one_in > 0 && random.Below(one_in) == 0; }

  // Notes what must never happen. The run ends after the event.
  void Fail(const std::string& problem);
  // The first problem; empty if there is none.
  const std::string& problem() const { return problem_; }

  // Adds a line to the record.
  void Note(const std::string& line);
  uint64_t digest() const { return digest_; }
  const std::deque<std::string>& last_lines() const { return lines_; }

  Random random;

 private:
  struct Event {
    Microseconds at;
    uint64_t tie;  // Events of one time run in any order.
    uint64_t number;
    std::function<void()> run;
    bool operator>(const Event& other) const {
      return std::tie(at, tie, number) > std::tie(other.at, other.tie, other.number);
    }
  };

  const bool prints_;
  std::list<Process> processes_;
  Microseconds now_ = 0;
  uint64_t events_ = 0;
  uint64_t added_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  uint64_t digest_ = 0;
  std::deque<std::string> lines_;
  std::string problem_;
};

}  // namespace simurgh::simulation
