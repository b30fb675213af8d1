#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/telemetry/profile_range.h"

namespace simurgh {

// What a process did when, kept in memory until it is written as a Chrome trace, which Perfetto and
// chrome://tracing show.
//
// Threads: any. Cost: a lock and 40 bytes a span; spans beyond the limit are counted and left out.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  // max_spans: how many are kept, the first ones.
  explicit Timeline(size_t max_spans = size_t{1} << 18) : max_spans_(max_spans) {}

  // A span of work on a step. Spans of a track may overlap.
  // track, name: of static storage duration.
  void Add(const char* track, const char* name, uint64_t step, Clock::time_point begin,
           Clock::time_point end);

  // JSON object format: one process, `name`, with lines for every track, in the order of their
  // first spans, and with `left_out`, the number of spans beyond the limit. process: a number that
  // tells traces of several apart. Times are of the steady clock, so traces of one machine fit
  // together.
  std::string ToJson(uint32_t process, const std::string& name) const;

  // Errors: of opening and writing the file.
  Status Write(const std::string& path, uint32_t process, const std::string& name) const;

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

// Adds a span from its making to its end, if there is a timeline, and shows it in a profile.
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
