#include "telemetry/metrics.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

const CounterFamily kEvents("simurgh_test_events_total", "Events.");
const HistogramFamily kSizes("simurgh_test_size_rows", "Sizes.");
const GaugeFamily kDepth("simurgh_test_depth_batches", "Batches in the buffer.");
const CounterFamily kLabeled("simurgh_test_a_total", "A.", {"y", "x"});
const CounterFamily kPulls("simurgh_test_pulls_total", "Pulls answered.", {"purpose"});
const GaugeFamily kAnswer("simurgh_test_answer", "Computed.");
const HistogramFamily kWait("simurgh_test_wait_seconds", "Time waited.");
const GaugeFamily kLevel("simurgh_test_level", "Level.", {"of"});
const GaugeFamily kOdd("simurgh_test_odd", "Odd.", {"path"});

TEST_CASE("counts of more threads than cells add up exactly") {
  MetricRegistry registry;
  Counter& counter = registry.Get(kEvents);
  Histogram& histogram = registry.Get(kSizes, PowersOfTwo(1024));
  Gauge& gauge = registry.Get(kDepth);
  constexpr uint64_t kThreads = 3 * internal::kMetricSlots + 1;
  constexpr uint64_t kRounds = 2000;
  std::atomic<bool> scraping = true;
  std::thread scraper([&] {
    uint64_t before = 0;
    while (scraping) {
      const uint64_t now = counter.value();
      if (now < before) FAIL("a counter ran backwards");
      before = now;
      registry.Serialize();
    }
  });
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 1; i <= kRounds; ++i) {
        counter.Add(i);
        histogram.Observe(static_cast<double>(i));
        gauge.Add(1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  scraping = false;
  scraper.join();
  const uint64_t sum_of_one = kRounds * (kRounds + 1) / 2;
  CHECK(counter.value() == kThreads * sum_of_one);
  CHECK(gauge.value() == static_cast<double>(kThreads * kRounds));
  const Histogram::Snapshot snapshot = histogram.snapshot();
  CHECK(snapshot.total() == kThreads * kRounds);
  CHECK(snapshot.sum == static_cast<double>(kThreads * sum_of_one));
  CHECK(snapshot.counts[4] == kThreads * 8);  // 9 to 16.
  CHECK(snapshot.counts.back() == kThreads * (2000 - 1024));
}

TEST_CASE("a histogram's bounds belong to the bucket below them") {
  Histogram histogram({0.5, 1.0, 2.0});
  for (double value : {-1.0, 0.5, 0.50001, 1.0, 2.0, 2.1}) histogram.Observe(value);
  CHECK(histogram.snapshot().counts == std::vector<uint64_t>{2, 2, 1, 1});
  CHECK(histogram.snapshot().sum == Approx(5.10001));
}

TEST_CASE("a value that is not finite is counted and does not spoil the sum") {
  Histogram histogram({1.0});
  histogram.Observe(0.25);
  histogram.Observe(std::numeric_limits<double>::quiet_NaN());
  histogram.Observe(std::numeric_limits<double>::infinity());
  histogram.Observe(-std::numeric_limits<double>::infinity());
  CHECK(histogram.snapshot().counts == std::vector<uint64_t>{1, 3});
  CHECK(histogram.snapshot().sum == 0.25);
}

TEST_CASE("durations are observed in seconds") {
  Histogram histogram(LatencyBuckets());
  histogram.Observe(std::chrono::milliseconds(1500));
  CHECK(histogram.snapshot().sum == 1.5);
}

TEST_CASE("bounds helpers") {
  CHECK(PowersOfTwo(0) == std::vector<double>{1});
  CHECK(PowersOfTwo(1) == std::vector<double>{1});
  CHECK(PowersOfTwo(8) == std::vector<double>{1, 2, 4, 8});
  CHECK(PowersOfTwo(9) == std::vector<double>{1, 2, 4, 8, 16});
  const auto seconds = ExponentialSeconds(std::chrono::milliseconds(1), 10, 3);
  REQUIRE(seconds.size() == 3);
  CHECK(seconds[0] == Approx(0.001));
  CHECK(seconds[2] == Approx(0.1));
  CHECK(LatencyBuckets().back() == Approx(20.97).epsilon(0.01));
}

TEST_CASE("the same family and labels are the same metric") {
  MetricRegistry registry;
  Counter& a = registry.Get(kLabeled, {"1", "2"});
  Counter& b = registry.Get(kLabeled, {"1", "2"});
  Counter& c = registry.Get(kLabeled, {"1", "3"});
  CHECK(&a == &b);
  CHECK(&a != &c);
}

// Expected text written by hand after the Prometheus exposition format 0.0.4.
TEST_CASE("the text that Prometheus reads") {
  MetricRegistry registry;
  registry.Get(kPulls, {"train"}).Add(3);
  registry.Get(kPulls, {"evaluate"});
  registry.Get(kLabeled, {"1", "2"});
  registry.Get(kDepth).Set(-2.5);
  registry.AddComputedGauge(kAnswer, {}, [] { return 42.0; });
  Histogram& histogram = registry.Get(kWait, {0.5, 2});
  histogram.Observe(0.25);
  histogram.Observe(0.5);
  histogram.Observe(1.0);
  histogram.Observe(8.0);
  CHECK(registry.Serialize() ==
        "# HELP simurgh_test_a_total A.\n"
        "# TYPE simurgh_test_a_total counter\n"
        "simurgh_test_a_total{x=\"2\",y=\"1\"} 0\n"
        "# HELP simurgh_test_answer Computed.\n"
        "# TYPE simurgh_test_answer gauge\n"
        "simurgh_test_answer 42\n"
        "# HELP simurgh_test_depth_batches Batches in the buffer.\n"
        "# TYPE simurgh_test_depth_batches gauge\n"
        "simurgh_test_depth_batches -2.5\n"
        "# HELP simurgh_test_pulls_total Pulls answered.\n"
        "# TYPE simurgh_test_pulls_total counter\n"
        "simurgh_test_pulls_total{purpose=\"evaluate\"} 0\n"
        "simurgh_test_pulls_total{purpose=\"train\"} 3\n"
        "# HELP simurgh_test_wait_seconds Time waited.\n"
        "# TYPE simurgh_test_wait_seconds histogram\n"
        "simurgh_test_wait_seconds_count 4\n"
        "simurgh_test_wait_seconds_sum 9.75\n"
        "simurgh_test_wait_seconds_bucket{le=\"0.5\"} 2\n"
        "simurgh_test_wait_seconds_bucket{le=\"2\"} 3\n"
        "simurgh_test_wait_seconds_bucket{le=\"+Inf\"} 4\n");
}

TEST_CASE("a gauge exists once it has a value") {
  MetricRegistry registry;
  Gauge& gauge = registry.Get(kLevel, {"a"});
  registry.Get(kLevel, {"b"});
  CHECK(std::isnan(gauge.value()));
  CHECK(registry.Serialize().empty());
  gauge.Add(2);
  gauge.Add(-3);
  CHECK_THAT(registry.Serialize(), Catch::Contains("simurgh_test_level{of=\"a\"} -1\n"));
  CHECK_THAT(registry.Serialize(), !Catch::Contains("{of=\"b\"}"));
  gauge.Set(std::nan(""));  // As an AUC that is undefined.
  CHECK(registry.Serialize().empty());
}

TEST_CASE("label values are escaped") {
  MetricRegistry registry;
  registry.Get(kOdd, {"a\\b\"c\nd"}).Set(1);
  CHECK(registry.Serialize() ==
        "# HELP simurgh_test_odd Odd.\n"
        "# TYPE simurgh_test_odd gauge\n"
        "simurgh_test_odd{path=\"a\\\\b\\\"c\\nd\"} 1\n");
}

TEST_CASE("a program describes its families without a registry, ordered by name") {
  const std::string text = MetricFamily::DescribeAll();
  CHECK_THAT(text, Catch::StartsWith("simurgh_test_a_total\tcounter\ty x\tA.\n"
                                     "simurgh_test_answer\tgauge\t\tComputed.\n"));
  CHECK_THAT(text, Catch::Contains("\nsimurgh_test_wait_seconds\thistogram\t\tTime waited.\n"));
}

TEST_CASE("an empty registry is an empty text") { CHECK(MetricRegistry().Serialize().empty()); }

}  // namespace
}  // namespace simurgh
