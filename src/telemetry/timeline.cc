#include "telemetry/timeline.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <ostream>
#include <set>
#include <tuple>
#include <utility>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <nlohmann/json.hpp>

#include "base/mutex.h"
#include "base/text.h"

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

using std::chrono::nanoseconds;
using Json = nlohmann::ordered_json;

Mutex recorder;
Timeline* recording ABSL_GUARDED_BY(recorder) = nullptr;

constexpr size_t kLinesOfRow = 1'000;  // Range of line numbers per row.

constexpr const char* kKinds[] = {"work", "call", "handling"};

double Microseconds(nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// The lines of a row, by the end of their last spans.
using Lines = std::vector<Timeline::Clock::time_point>;

// Returns the first line that is free at the span's begin: spans that overlap need several lines.
size_t PlaceSpan(const SpanRecord& span, Lines& lines) {
  const auto free = std::ranges::find_if(lines, [&](auto end) { return end <= span.begin; });
  const auto line = static_cast<size_t>(free - lines.begin());
  if (free == lines.end()) lines.emplace_back();
  lines[line] = span.end;
  return line;
}

std::string NameEvent(const char* what, size_t line, const std::string& name) {
  std::string event =
      absl::StrFormat(R"({"ph":"M","name":"%s","pid":1,"tid":%d,"args":{"name":)", what, line);
  AppendJsonText(name, event);
  return event + "}}";
}

std::string ArgumentsOf(const SpanRecord& span) {
  std::string arguments;
  const auto add = [&](const auto&... parts) {
    absl::StrAppend(&arguments, arguments.empty() ? "" : ",", parts...);
  };
  if (span.step != SpanRecord::kNoStep) add("\"step\":", span.step);
  // Numbers of JSON lack bits for an id.
  if (span.trace_id != 0) add("\"trace\":\"", absl::Hex(span.trace_id, absl::kZeroPad16), "\"");
  if (span.span_id != 0) add("\"span\":\"", absl::Hex(span.span_id, absl::kZeroPad16), "\"");
  if (span.kind == SpanKind::kHandling) {
    add("\"waited_us\":", absl::StrFormat("%.3f", Microseconds(span.waited)));
  }
  return arguments;
}

}  // namespace

std::atomic<bool> Timeline::is_recording_ = false;

std::unique_ptr<Timeline> Timeline::Record(size_t max_spans) {
  std::unique_ptr<Timeline> timeline(new Timeline);
  timeline->spans_.reserve(max_spans);
  const MutexLock lock(recorder);
  if (recording != nullptr) return nullptr;
  timeline->start_ = Clock::now();
  recording = timeline.get();
  is_recording_ = true;
  return timeline;
}

void Timeline::AddToRecording(const SpanRecord& span) {
  thread_local const int thread = ::gettid();
  const MutexLock lock(recorder);
  if (recording == nullptr || span.begin < recording->start_) return;
  std::vector<Span>& spans = recording->spans_;
  if (spans.size() == spans.capacity()) {
    ++recording->left_out_;
    return;
  }
  spans.push_back({{span}, thread});
}

void Timeline::End() {
  const MutexLock lock(recorder);
  if (recording != this) return;
  recording = nullptr;
  is_recording_ = false;
}

std::string Timeline::RowName(const Span& span) const {
  if (span.track != nullptr) return span.track;
  // The kernel names the main thread after the program.
  if (span.thread == ::getpid()) return "main";
  std::string name;
  std::getline(std::ifstream(absl::StrCat("/proc/self/task/", span.thread, "/comm")), name);
  return name.empty() ? absl::StrCat("ended thread ", span.thread) : name;
}

std::string Timeline::Finish(const std::string& process) {
  End();
  // A span comes before those in it.
  std::ranges::sort(spans_, {}, [](const Span& span) {
    return std::tuple(span.begin, -span.end.time_since_epoch(), span.step);
  });
  std::string json = "{\"otherData\":{\"process\":";
  AppendJsonText(process, json);
  absl::StrAppend(&json, ",\"start_ns\":", nanoseconds(start_.time_since_epoch()).count(),
                  ",\"left_out\":", left_out_, "},\"traceEvents\":[\n",
                  NameEvent("process_name", 0, process));
  std::map<std::pair<int, const char*>, std::pair<size_t, Lines>> rows;
  std::set<size_t> named;
  for (const Span& span : spans_) {
    const std::pair key(span.track == nullptr ? span.thread : 0, span.track);
    auto& [row, lines] = rows.try_emplace(key, rows.size() + 1, Lines()).first->second;
    // Perfetto nests the spans of a thread.
    const size_t place = span.track == nullptr ? 0 : PlaceSpan(span, lines);
    const size_t line = row * kLinesOfRow + place;
    if (named.insert(line).second) {
      absl::StrAppend(&json, ",\n", NameEvent("thread_name", line, RowName(span)));
    }
    absl::StrAppend(&json, ",\n",
                    absl::StrFormat(R"({"ph":"X","name":"%s","cat":"%s","pid":1,"tid":%d,)"
                                    R"("ts":%.3f,"dur":%.3f,"args":{%s}})",
                                    span.name, kKinds[static_cast<size_t>(span.kind)], line,
                                    Microseconds(span.begin - start_),
                                    Microseconds(span.end - span.begin), ArgumentsOf(span)));
  }
  absl::StrAppend(&json, "\n]}\n");
  return json;
}

// The part of the trace that one process adds.
struct MergedTrace::Part {
  uint32_t process;
  int64_t offset;
  Process report = {};
  int64_t start = 0;
  std::vector<std::string> names = {};
  std::vector<Event> events = {};
  std::vector<End> ends = {};

  void TakeHead(const Json& head) {
    report.name = head.at("process").get<std::string>();
    report.left_out = head.at("left_out").get<uint64_t>();
    start = head.at("start_ns").get<int64_t>() + offset;
  }

  void TakeEvent(Json& event) {
    event.at("pid") = process;
    if (event.at("ph") == "M") {
      names.push_back(event.dump());
      return;
    }
    const auto in_ns = [&](const char* key) {
      return std::llround(event.at(key).get<double>() * 1000);
    };
    const int64_t begin = start + in_ns("ts");
    const auto kind = event.at("cat").get<std::string>();
    const Json& arguments = event.at("args");
    if (kind != kKinds[0] && arguments.contains("span")) {
      ends.push_back({.call = arguments.at("trace").get<std::string>() +
                              arguments.at("span").get<std::string>(),
                      .is_client = kind == kKinds[1],
                      .process = process,
                      .row = event.at("tid").get<uint64_t>(),
                      .begin = begin,
                      .end = begin + in_ns("dur")});
    }
    event.erase("ts");
    std::string text = event.dump();
    text.pop_back();
    events.push_back({begin, std::move(text)});
    ++report.spans;
  }
};

StatusOr<MergedTrace::Process> MergedTrace::Add(const std::string& json, nanoseconds clock_offset) {
  Part part{.process = processes_ + 1, .offset = clock_offset.count()};
  // Drops each event when it has been read: together they would take much memory.
  const auto take = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event != Json::parse_event_t::object_end || depth == 0) return true;
    if (depth == 1) part.TakeHead(value);
    if (depth == 2) part.TakeEvent(value);
    return depth > 2;
  };
  try {
    (void)Json::parse(json, take);
  } catch (const Json::exception& error) {
    return absl::DataLossError(absl::StrCat("not a trace: ", error.what()));
  }
  if (part.report.name.empty()) return absl::DataLossError("not a trace: it has no process");
  ++processes_;
  start_ = std::min(start_, part.start);
  std::ranges::move(part.names, std::back_inserter(names_));
  std::ranges::move(part.events, std::back_inserter(events_));
  std::ranges::move(part.ends, std::back_inserter(ends_));
  return part.report;
}

uint64_t MergedTrace::Write(std::ostream& out) {
  std::map<std::string_view, const End*> clients;
  for (const End& end : ends_) {
    if (end.is_client) clients[end.call] = &end;
  }
  uint64_t connected = 0;
  const auto add = [&](const End& end, const char* what, int64_t time) {
    events_.push_back(
        {time, absl::StrFormat(R"({"ph":%s,"name":"call","cat":"call","id":%d,"pid":%d,"tid":%d)",
                               what, connected, end.process, end.row)});
  };
  for (const End& server : ends_) {
    const auto client = clients.find(server.call);
    if (server.is_client || client == clients.end()) continue;
    ++connected;
    const int64_t sent = client->second->begin;
    add(*client->second, R"("s")", sent);
    // An arrow that ends before it begins, since no clock is exact, is not drawn.
    add(server, R"("f","bp":"e")",
        sent <= server.end ? std::max(sent, server.begin) : server.begin);
  }
  // At equal times, the span that an arrow ends at comes before the arrow's end.
  std::vector<size_t> order(events_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [this](size_t i) { return std::pair(events_[i].time, i); });
  out << "{\"traceEvents\":[";
  const char* separator = "\n";
  for (const std::string& name : names_) out << std::exchange(separator, ",\n") << name;
  for (const size_t i : order) {
    const Event& event = events_[i];
    out << std::exchange(separator, ",\n") << event.text
        << absl::StrFormat(",\"ts\":%.3f}", Microseconds(nanoseconds(event.time - start_)));
  }
  out << "\n]}\n";
  return connected;
}

}  // namespace simurgh
