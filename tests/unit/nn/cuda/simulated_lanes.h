#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "nn/cuda/work.h"

namespace simurgh::testing {

// Lanes of a simulated device. Each lane runs its work in order. A seed chooses, among the orders
// that events allow, which lane runs first and whether lanes run early or only when the host waits.
//
// Threads: one owner.
class SimulatedLanes {
 public:
  explicit SimulatedLanes(uint64_t seed) : random_(seed) {}

  void Enqueue(cuda::Lane lane, std::function<void()> work) {
    Of(lane).push_back({.work = std::move(work)});
    RunSome();
  }

  // Later Await and RunTo refer to the lane's work so far.
  void Signal(cuda::Lane lane, const cuda::Event& event) {
    const uint64_t version = ++Of(event).signalled;
    Of(lane).push_back({.work = [this, event, version] { Of(event).happened = version; }});
  }
  void Await(cuda::Lane lane, const cuda::Event& event) {
    Of(lane).push_back({.event = event, .version = Of(event).signalled});
  }

  void RunTo(const cuda::Event& event) {
    const uint64_t version = Of(event).signalled;
    while (Of(event).happened < version) SIMURGH_CHECK(RunOne());
  }
  void RunTo(cuda::Lane lane) {
    while (!Of(lane).empty()) RunOne();
  }
  void RunAll() {
    while (RunOne()) {
    }
  }

 private:
  struct Entry {
    std::function<void()> work;
    cuda::Event event;     // Without work: what is waited for,
    uint64_t version = 0;  // and which signal of it.
  };
  struct Signals {
    uint64_t signalled = 0;
    uint64_t happened = 0;
  };
  using Entries = std::deque<Entry>;

  Entries& Of(cuda::Lane lane) { return lanes_[static_cast<size_t>(lane)]; }
  Signals& Of(const cuda::Event& event) {
    return signals_[static_cast<size_t>(event.kind) * cuda::kSlots + event.slot];
  }

  bool MayRun(const Entries& lane) {
    return !lane.empty() &&
           (lane.front().work || Of(lane.front().event).happened >= lane.front().version);
  }

  // Returns false without work.
  bool RunOne() {
    if (phase_left_-- == 0) BeginPhase();
    for (const size_t index : order_) {
      Entries& lane = lanes_[index];
      if (!MayRun(lane)) continue;
      const Entry entry = std::move(lane.front());
      lane.pop_front();
      if (entry.work) entry.work();
      return true;
    }
    SIMURGH_CHECK(
        std::ranges::all_of(lanes_, &Entries::empty));  // Otherwise the lanes are deadlocked.
    return false;
  }
  void BeginPhase() {
    constexpr uint64_t kLongest = 1000;
    phase_left_ = random_.Below(kLongest);
    quick_ = random_.Below(2) == 0;
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.Below(i)]);
  }

  // Runs some work, as a device does in parallel with the host.
  void RunSome() {
    if (!quick_) return;
    for (uint64_t count = random_.Below(3); count > 0 && RunOne(); --count) {
    }
  }

  Random random_;
  uint64_t phase_left_ = 0;  // Calls of RunOne.
  bool quick_ = false;
  std::array<size_t, cuda::kLanes> order_{0, 1, 2, 3};
  std::array<Entries, cuda::kLanes> lanes_;
  std::array<Signals, cuda::kEventKinds * cuda::kSlots> signals_;
};

}  // namespace simurgh::testing
