#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"

namespace simurgh {

// Ranges in a profile (NVTX), which may begin on one thread and end on another. Without CUDA, both
// functions do nothing. name: a string literal, shown with the step.
//
// Threads: any. Cost: a branch when no profile is recorded.
uint64_t BeginProfileRange(const char* name, uint64_t step);
void EndProfileRange(uint64_t range);

// Records spans of work in memory, for a Chrome trace for Perfetto or
// chrome://tracing.
//
// Threads: any. Cost: a lock and 40 bytes per span.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  // Keeps the first `max_spans` spans and counts the others.
  explicit Timeline(size_t max_spans = size_t{1} << 18) : max_spans_(max_spans) {}

  // A span of work on a step. Spans of a track may overlap.
  // track, name: of static storage duration.
  void Add(const char* track, const char* name, uint64_t step, Clock::time_point begin,
           Clock::time_point end);

  // JSON object format. Tracks are in the order of their first spans; `left_out` is the number of
  // spans beyond the limit. process, name: identify this process among others. Times are of the
  // steady clock, so traces of one machine can be merged.
  std::string ToJson(uint32_t process, const std::string& name) const;

 private:
  struct Span {
    const char* track;
    const char* name;
    uint64_t step;
    Clock::time_point begin;
    Clock::time_point end;
  };

  const size_t max_spans_;
  mutable Mutex mutex_;
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A span from construction to destruction, in the profile and, unless null, in the timeline.
class TimelineSpan {
 public:
  TimelineSpan(Timeline* timeline, const char* track, const char* name, uint64_t step)
      : timeline_(timeline),
        track_(track),
        name_(name),
        step_(step),
        range_(BeginProfileRange(name, step)) {}
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;
  ~TimelineSpan() {
    EndProfileRange(range_);
    if (timeline_ != nullptr) timeline_->Add(track_, name_, step_, begin_, Timeline::Clock::now());
  }

 private:
  Timeline* const timeline_;
  const char* const track_;
  const char* const name_;
  const uint64_t step_;
  const uint64_t range_;
  const Timeline::Clock::time_point begin_ = Timeline::Clock::now();
};

}  // namespace simurgh
