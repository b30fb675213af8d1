#include <cmath>

#include <catch2/catch.hpp>

#include "services/simurgh/scrape.h"
#include "telemetry/metrics.h"

namespace simurgh {
namespace {

const CounterFamily kEvents("simurgh_test_events_total", "Events.", {"a"});
const HistogramFamily kTimes("simurgh_test_seconds", "Times.");
const GaugeFamily kAbsent("simurgh_test_absent", "Never set.");
const GaugeFamily kLevel("simurgh_test_level", "Level.");

MetricsText Parsed(const std::string& text) {
  const StatusOr<MetricsText> parsed = MetricsText::Parse(text);
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  return *parsed;
}

TEST_CASE("Series are summed over the labels that are not given") {
  // After the specification of the format, version 0.0.4.
  const MetricsText metrics = Parsed(
      "# HELP http_requests_total The total number of HTTP requests.\n"
      "# TYPE http_requests_total counter\n"
      "http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n"
      "http_requests_total{method=\"post\",code=\"400\"}    3 1395066363000\n"
      "msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot find "
      "file:\\n\\\"FILE.TXT\\\"\"} 1.458255915e9\n"
      "metric_without_timestamp_and_labels 12.47\n"
      "something_weird{problem=\"division by zero\"} +Inf -3982045\n"
      "\n"
      "rpc_duration_seconds{quantile=\"0.01\",} 3102\n");
  CHECK(metrics.Sum("http_requests_total") == 1030);
  CHECK(metrics.Sum("http_requests_total", {{"code", "400"}}) == 3);
  CHECK(metrics.Sum("http_requests_total", {{"code", "400"}, {"method", "post"}}) == 3);
  CHECK(metrics.Sum("http_requests_total", {{"code", "500"}}) == std::nullopt);
  CHECK(metrics.Sum("http_requests") == std::nullopt);
  CHECK(metrics.Label("method", "http_requests_total") == "post");
  CHECK(metrics.Label("host", "http_requests_total") == std::nullopt);
  CHECK(metrics.Label("method", "http_requests") == std::nullopt);
  CHECK(metrics.Sum("metric_without_timestamp_and_labels") == 12.47);
  CHECK(metrics.Sum("msdos_file_access_time_seconds",
                    {{"path", "C:\\DIR\\FILE.TXT"},
                     {"error", "Cannot find file:\n\"FILE.TXT\""}}) == 1.458255915e9);
  CHECK(std::isinf(*metrics.Sum("something_weird")));
  CHECK(metrics.Sum("rpc_duration_seconds") == 3102);
}

TEST_CASE("The text of a registry is read back") {
  MetricRegistry registry;
  registry.Get(kEvents, {"x\"y"}).Add(7);
  registry.Get(kTimes, {0.5, 1}).Observe(0.75, 4);
  registry.Get(kAbsent);
  registry.Get(kLevel).Add(-2.5);
  const MetricsText metrics = Parsed(registry.Serialize());
  CHECK(metrics.Sum("simurgh_test_events_total", {{"a", "x\"y"}}) == 7);
  CHECK(metrics.Sum("simurgh_test_seconds_sum") == 3);
  CHECK(metrics.Sum("simurgh_test_seconds_count") == 4);
  CHECK(metrics.Sum("simurgh_test_seconds_bucket", {{"le", "0.5"}}) == 0);
  CHECK(metrics.Sum("simurgh_test_level") == -2.5);
  CHECK(metrics.Sum("simurgh_test_absent") == std::nullopt);
}

TEST_CASE("Malformed lines are named") {
  const std::string bad = GENERATE("a", "a b", "a 1 2 3", "{b=\"c\"} 1", "a{b=c} 1", "a{b=\"c} 1",
                                   "a{b=\"c\\", "a{b=\"c\"", "<html>", "a{");
  CAPTURE(bad);
  const Status status = MetricsText::Parse("fine 1\n" + bad + "\n").status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::StartsWith("line 2 "));
}

}  // namespace
}  // namespace simurgh
