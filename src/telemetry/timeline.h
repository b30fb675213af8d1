#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace simurgh {

// One reading of another process's clock.
struct ClockSample {
  std::chrono::nanoseconds sent{};      // Own clock, before the request.
  std::chrono::nanoseconds read{};      // The other clock, at a time in between.
  std::chrono::nanoseconds received{};  // Own clock, after the answer.
};

struct ClockOffset {
  std::chrono::nanoseconds offset{};  // Own time less the other clock's time.
  std::chrono::nanoseconds error{};   // The error of `offset` is at most this.
};

// The middle of the shortest round trip, as in NTP: whatever the two ways take, the error is at
// most half of it. Requires samples of one clock.
inline ClockOffset EstimateClockOffset(std::span<const ClockSample> samples) {
  SIMURGH_CHECK(!samples.empty());
  const ClockSample& best = *std::ranges::min_element(
      samples, {}, [](const ClockSample& sample) { return sample.received - sample.sent; });
  const std::chrono::nanoseconds trip = best.received - best.sent;
  return {.offset = best.sent + trip / 2 - best.read, .error = (trip + trip % 2) / 2};
}

// Ranges in a profile (NVTX), which may begin on one thread and end on another. Without CUDA, both
// functions do nothing. name: a string literal, shown with the step.
//
// Threads: any. Cost: a branch when no profile is recorded.
uint64_t BeginProfileRange(const char* name, uint64_t step);
void EndProfileRange(uint64_t range);

enum class SpanKind : uint8_t {
  kWork,
  kCall,     // A call to another process, from its client's side.
  kHandling  // The same call at its server, from the arrival of the request.
};

struct SpanRecord {
  static constexpr uint64_t kNoStep = UINT64_MAX;

  std::string_view name;  // Points to static storage, like `track`.
  // The row of the span, whose spans may overlap. Null: the row of the thread that adds the span;
  // spans of a thread are nested.
  const char* track = nullptr;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  SpanKind kind = SpanKind::kWork;
  uint64_t step = kNoStep;
  uint64_t trace_id = 0;              // Identifies the batch in all processes. 0: none.
  uint64_t span_id = 0;               // Identifies the call; the same at both ends. 0: none.
  std::chrono::nanoseconds waited{};  // kHandling: the time until the handler began.
};

// Records the spans of a process on request. There is at most one recording.
//
// Threads: any may add spans; a recording has one owner.
// Cost: a relaxed load per span without a recording; otherwise a lock and a copy, without
// allocation. The memory of a recording is reserved at its begin.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr size_t kMaxSpans = size_t{1} << 17;

  static bool is_recording() { return is_recording_.load(std::memory_order_relaxed); }
  static void Add(const SpanRecord& span) {
    if (is_recording()) AddToRecording(span);
  }

  // Begins a recording, which the destructor ends. It keeps the first `max_spans` spans that begin
  // and end in it, and counts the others. Null: another recording is in progress.
  static std::unique_ptr<Timeline> Record(size_t max_spans = kMaxSpans);
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  ~Timeline() { End(); }

  // Ends the recording. Returns a Chrome trace in the JSON object format, ordered by time. Times
  // are relative to the begin of the recording. process: "embedding-ps/0".
  std::string Finish(const std::string& process);

 private:
  struct Span : SpanRecord {
    int thread = 0;
  };

  Timeline() = default;
  static void AddToRecording(const SpanRecord& span);
  void End();
  std::string RowName(const Span& span) const;

  static std::atomic<bool> is_recording_;

  // Guarded by the recorder's mutex until the end of the recording.
  std::vector<Span> spans_;
  uint64_t left_out_ = 0;
  Clock::time_point start_;
};

// A span on the calling thread from construction to destruction, in the profile and the timeline.
class TimelineSpan {
 public:
  TimelineSpan(const char* name, uint64_t step, uint64_t trace_id = 0)
      : name_(name),
        step_(step),
        trace_id_(trace_id),
        range_(BeginProfileRange(name, step)),
        begin_(Timeline::is_recording() ? Timeline::Clock::now() : Timeline::Clock::time_point()) {}
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;
  ~TimelineSpan() {
    EndProfileRange(range_);
    if (begin_ == Timeline::Clock::time_point()) return;
    Timeline::Add({.name = name_,
                   .begin = begin_,
                   .end = Timeline::Clock::now(),
                   .step = step_,
                   .trace_id = trace_id_});
  }

 private:
  const char* const name_;
  const uint64_t step_;
  const uint64_t trace_id_;
  const uint64_t range_;
  const Timeline::Clock::time_point begin_;
};

// A trace of several processes. Arrows connect calls with their handling in another process.
//
// Threads: one owner.
class MergedTrace {
 public:
  struct Process {
    std::string name;
    uint64_t spans = 0;
    uint64_t left_out = 0;
  };

  // Adds a process. json: the result of Timeline::Finish(). clock_offset: the common clock's time
  // less the time of its clock. Errors: DATA_LOSS for other texts, which change nothing.
  StatusOr<Process> Add(const std::string& json, std::chrono::nanoseconds clock_offset);

  // Writes a Chrome trace in the JSON object format, ordered by time from the begin of the first
  // recording on. Returns the number of connected calls. Call once.
  uint64_t Write(std::ostream& out);

 private:
  struct Event {
    int64_t time = 0;  // Nanoseconds of the common clock.
    std::string text;  // The event's JSON up to the time, which Write() adds.
  };
  // An end of a call.
  struct End {
    std::string call;
    bool is_client = false;
    uint32_t process = 0;
    uint64_t row = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  struct Part;

  uint32_t processes_ = 0;
  int64_t start_ = INT64_MAX;
  std::vector<std::string> names_;  // Events that name rows.
  std::vector<Event> events_;
  std::vector<End> ends_;
};

}  // namespace simurgh
