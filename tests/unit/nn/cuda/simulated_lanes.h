#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "nn/cuda/work.h"
#include "simurgh/base/check.h"
#include "simurgh/base/random.h"

namespace simurgh::testing {

// The lanes of a device that does not exist: what is enqueued in one runs in order. Against the
// others it runs as a seed says and events allow: for some time one lane has precedence over
// another, and all are quick, or so slow that they do only what the host waits for.
//
// Threads: one owner.
class SimulatedLanes {
 public:
  explicit SimulatedLanes(uint64_t seed) : random_(seed) {}

  void Enqueue(cuda::Lane lane, std::function<void()> work) {
    Of(lane).push_back({.work = std::move(work)});
    RunSome();
  }

  // From now on, Await and RunTo mean what the lane has been given so far.
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

  // False when there is nothing to do.
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
    SIMURGH_CHECK(std::ranges::all_of(lanes_, &Entries::empty));  // Else nothing could ever run.
    return false;
  }
  void BeginPhase() {
    constexpr uint64_t kLongest = 1000;
    phase_left_ = random_.Below(kLongest);
    quick_ = random_.Below(2) == 0;
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.Below(i)]);
  }

  // As a device does while the host goes on.
  void RunSome() {
    if (!quick_) return;
    for (uint64_t count = random_.Below(3); count > 0 && RunOne(); --count) {
    }
  }

  Random random_;
  uint64_t phase_left_ = 0;  // Calls of RunOne.
  bool quick_ = false;
  std::array<size_t, cuda::kLanes> order_{0, 1, 2};
  std::array<Entries, cuda::kLanes> lanes_;
  std::array<Signals, cuda::kEventKinds * cuda::kSlots> signals_;
};

}  // namespace simurgh::testing
