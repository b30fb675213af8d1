#include "simurgh/telemetry/timeline.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using std::chrono::microseconds;

Timeline::Clock::time_point At(int64_t time) {
  return Timeline::Clock::time_point(microseconds(time));
}

// The events that are spans, one a line.
std::vector<std::string> SpansOf(const std::string& json) {
  std::vector<std::string> spans;
  for (const absl::string_view line : absl::StrSplit(json, '\n')) {
    if (line.find(R"("ph":"X")") != absl::string_view::npos) spans.emplace_back(line);
  }
  return spans;
}

TEST_CASE("a timeline is a Chrome trace in the order of time") {
  Timeline timeline(10);
  timeline.Add("compute", "backward", 3, At(100), At(250));
  timeline.Add("pull", "pull", 4, At(90), At(190));
  const std::string json = timeline.ToJson(2, "rank 2");
  CHECK_THAT(json,
             Catch::StartsWith("{\"left_out\":0,\"traceEvents\":[\n") && Catch::EndsWith("\n]}\n"));
  CHECK_THAT(json,
             Catch::Contains(R"("name":"process_name","pid":2,"tid":0,"args":{"name":"rank 2"})"));
  const auto spans = SpansOf(json);
  REQUIRE(spans.size() == 2);
  CHECK_THAT(spans[0], Catch::Contains(R"("name":"pull 4","cat":"pull","pid":2,"tid":1000,)"
                                       R"("ts":90.000,"dur":100.000,"args":{"step":4})"));
  CHECK_THAT(spans[1],
             Catch::Contains(R"("name":"backward 3","cat":"compute","pid":2,"tid":2000,)"));
}

TEST_CASE("spans of a track that overlap lie on lines of their own") {
  Timeline timeline(10);
  timeline.Add("pull", "pull", 0, At(0), At(100));
  timeline.Add("pull", "pull", 1, At(50), At(150));
  timeline.Add("pull", "pull", 2, At(100), At(200));
  const auto spans = SpansOf(timeline.ToJson(0, "rank 0"));
  REQUIRE(spans.size() == 3);
  CHECK_THAT(spans[0], Catch::Contains(R"("tid":1000,)"));
  CHECK_THAT(spans[1], Catch::Contains(R"("tid":1001,)"));
  CHECK_THAT(spans[2], Catch::Contains(R"("tid":1000,)"));
}

TEST_CASE("spans beyond the limit are counted, and nothing happens without a timeline") {
  Timeline timeline(2);
  {
    const TimelineSpan span(nullptr, "compute", "step", 0);
  }
  for (uint64_t step = 0; step < 5; ++step) {
    const TimelineSpan span(&timeline, "compute", "step", step);
  }
  const std::string json = timeline.ToJson(0, "");
  CHECK(SpansOf(json).size() == 2);
  CHECK_THAT(json, Catch::StartsWith("{\"left_out\":3,"));
}

}  // namespace
}  // namespace simurgh
