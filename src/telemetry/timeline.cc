#include "simurgh/telemetry/timeline.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#if defined(SIMURGH_CUDA)
#include <nvtx3/nvToolsExt.h>
#endif

namespace simurgh {

#if defined(SIMURGH_CUDA)

uint64_t BeginProfileRange(const char* name, uint64_t step) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attributes.payload.ullValue = step;
  return nvtxRangeStartEx(&attributes);
}

void EndProfileRange(uint64_t range) { nvtxRangeEnd(range); }

#else

uint64_t BeginProfileRange(const char* /*name*/, uint64_t /*step*/) { return 0; }

void EndProfileRange(uint64_t /*range*/) {}

#endif

namespace {

double Microseconds(Timeline::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

struct Track {
  std::string_view name;
  std::vector<Timeline::Clock::time_point> line_ends;  // End of the last span of each line.
};

// Returns the track's first free line at the span's begin: spans that overlap need several lines.
size_t PlaceSpan(Timeline::Clock::time_point begin, Timeline::Clock::time_point end, Track& track) {
  const auto free =
      std::ranges::find_if(track.line_ends, [&](auto line_end) { return line_end <= begin; });
  const auto line = static_cast<size_t>(free - track.line_ends.begin());
  if (free == track.line_ends.end()) track.line_ends.emplace_back();
  track.line_ends[line] = end;
  return line;
}

constexpr size_t kLinesOfTrack = 1'000;  // Range of line numbers per track.

std::string Metadata(const char* what, uint32_t process, size_t line, const std::string& name) {
  return absl::StrFormat(R"({"ph":"M","name":"%s","pid":%d,"tid":%d,"args":{"name":"%s"}})", what,
                         process, line, name);
}

}  // namespace

void Timeline::Add(const char* track, const char* name, uint64_t step, Clock::time_point begin,
                   Clock::time_point end) {
  const MutexLock lock(mutex_);
  if (spans_.size() == max_spans_) {
    ++left_out_;
    return;
  }
  spans_.push_back({track, name, step, begin, end});
}

std::string Timeline::ToJson(uint32_t process, const std::string& name) const {
  std::vector<Span> spans;
  uint64_t left_out = 0;
  {
    const MutexLock lock(mutex_);
    spans = spans_;
    left_out = left_out_;
  }
  std::ranges::sort(spans, {}, [](const Span& span) { return std::pair(span.begin, span.step); });
  std::vector<Track> tracks;
  std::set<size_t> named;
  std::string json = absl::StrCat("{\"left_out\":", left_out, ",\"traceEvents\":[\n",
                                  Metadata("process_name", process, 0, name));
  for (const Span& span : spans) {
    auto track = std::ranges::find(tracks, std::string_view(span.track), &Track::name);
    if (track == tracks.end()) track = tracks.insert(track, {.name = span.track, .line_ends = {}});
    const size_t place = PlaceSpan(span.begin, span.end, *track);
    const size_t line = static_cast<size_t>(track - tracks.begin() + 1) * kLinesOfTrack + place;
    if (named.insert(line).second) {
      absl::StrAppend(&json, ",\n", Metadata("thread_name", process, line, span.track));
    }
    absl::StrAppend(&json, ",\n",
                    absl::StrFormat(R"({"ph":"X","name":"%s %d","cat":"%s","pid":%d,"tid":%d,)"
                                    R"("ts":%.3f,"dur":%.3f,"args":{"step":%d}})",
                                    span.name, span.step, span.track, process, line,
                                    Microseconds(span.begin.time_since_epoch()),
                                    Microseconds(span.end - span.begin), span.step));
  }
  absl::StrAppend(&json, "\n]}\n");
  return json;
}

}  // namespace simurgh
