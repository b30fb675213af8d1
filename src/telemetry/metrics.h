#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace simurgh {

namespace internal {

// Threads beyond this number share cells, which only costs time.
inline constexpr size_t kMetricSlots = 16;

// False only in the programs that bench/e2e/bench_telemetry compares with.
#ifdef SIMURGH_NO_METRICS
inline constexpr bool kCounts = false;
#else
inline constexpr bool kCounts = true;
#endif

// The cell of the calling thread, in [0, kMetricSlots).
size_t MetricSlot();

template <typename T>
struct alignas(64) Cell {
  std::atomic<T> value{0};
};

// Eight bucket counts: a cache line that only one slot writes.
struct alignas(64) BucketCells {
  std::array<std::atomic<uint64_t>, 8> counts{};
};

}  // namespace internal

// A number of events, which only grows.
//
// Threads: any. A reader sees every addition that happened before its call. Cost: one relaxed
// addition on a cache line that few other threads write.
class Counter {
 public:
  void Add(uint64_t count = 1) {
    if constexpr (!internal::kCounts) return;
    cells_[internal::MetricSlot()].value.fetch_add(count, std::memory_order_relaxed);
  }

  uint64_t value() const;

 private:
  std::array<internal::Cell<uint64_t>, internal::kMetricSlots> cells_;
};

// A value that can rise and fall. It is NaN before the first call; then the text of the registry
// lacks it.
//
// Threads: any. All write the same word: too slow for the row path.
class Gauge {
 public:
  void Set(double value) {
    if constexpr (internal::kCounts) value_.store(value, std::memory_order_relaxed);
  }
  // Adds to 0 if there is no value.
  void Add(double difference) {
    if constexpr (!internal::kCounts) return;
    double before = value();
    while (!value_.compare_exchange_weak(
        before, std::isnan(before) ? difference : before + difference, std::memory_order_relaxed)) {
    }
  }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{std::numeric_limits<double>::quiet_NaN()};
};

// Counts of values by size: bucket i counts values in (bounds[i-1], bounds[i]], the last one all
// larger values.
//
// Threads: any. A snapshot may contain a concurrent value's count without its sum. Cost: a binary
// search of the bounds and two relaxed additions.
class Histogram {
 public:
  struct Snapshot {
    std::vector<uint64_t> counts;  // (bounds().size() + 1) not cumulative.
    double sum = 0;

    uint64_t total() const;
  };

  // Requires bounds that are finite and strictly ascending.
  explicit Histogram(std::vector<double> bounds);

  // Values that are not finite count in the last bucket and do not change the sum.
  void Observe(double value, uint64_t times = 1);

  // Observes the duration in seconds.
  void Observe(std::chrono::nanoseconds duration) {
    Observe(std::chrono::duration<double>(duration).count());
  }

  const std::vector<double>& bounds() const { return bounds_; }
  Snapshot snapshot() const;

 private:
  const std::vector<double> bounds_;
  const size_t lines_a_slot_;
  std::vector<internal::BucketCells> counts_;  // kMetricSlots x lines_a_slot_.
  std::array<internal::Cell<double>, internal::kMetricSlots> sums_;
};

// `count` bounds in seconds: `first`, then each `factor` times the previous one.
// Requires first > 0, factor > 1.
std::vector<double> ExponentialSeconds(std::chrono::nanoseconds first, double factor, size_t count);

// The bounds of all latencies: 20 µs to about 20 s in powers of two.
std::vector<double> LatencyBuckets();

// Bounds for counts and sizes: 1, 2, 4, ... to the first power of two >= `largest`.
std::vector<double> PowersOfTwo(uint64_t largest);

// The description of all series with one name: simurgh_<service>_<noun>_<unit>, with suffix _total
// for counters.
//
// A family is a constant of the file or class that counts. So a program can list all its metrics
// before the first event. Lifetime: the texts are literals. Threads: any.
class MetricFamily {
 public:
  enum class Type { kCounter, kGauge, kHistogram };

  MetricFamily(const MetricFamily&) = delete;
  MetricFamily& operator=(const MetricFamily&) = delete;

  // Returns the families of the program, ordered by name. A line has name, type, label names with
  // spaces between them, and help text. Tabs separate them.
  static std::string DescribeAll();

  Type type() const { return type_; }
  const char* name() const { return name_; }
  const char* help() const { return help_; }
  std::span<const char* const> labels() const { return std::span(labels_).first(label_count_); }

 protected:
  // Requires at most three labels.
  MetricFamily(Type type, const char* name, const char* help,
               std::initializer_list<const char*> labels);
  ~MetricFamily() = default;

 private:
  const Type type_;
  const char* const name_;
  const char* const help_;
  std::array<const char*, 3> labels_{};
  size_t label_count_ = 0;
  const MetricFamily* const next_;  // Links all families.
};

template <MetricFamily::Type kType>
class FamilyOf : public MetricFamily {
 public:
  FamilyOf(const char* name, const char* help, std::initializer_list<const char*> labels = {})
      : MetricFamily(kType, name, help, labels) {}
};
using CounterFamily = FamilyOf<MetricFamily::Type::kCounter>;
using GaugeFamily = FamilyOf<MetricFamily::Type::kGauge>;
using HistogramFamily = FamilyOf<MetricFamily::Type::kHistogram>;

// The values of a family's labels, in their order: any UTF-8. Each combination is a separate time
// series, so values must be a small fixed set, never data.
using LabelValues = std::vector<std::string>;

// All metrics of a process and the text that Prometheus reads.
//
// A histogram family has one set of bounds; a different second request is a programming error.
//
// Threads: any. Getting a metric takes a lock: do it once and keep the reference. Lifetime:
// references are valid as long as the registry.
class MetricRegistry {
 public:
  MetricRegistry();
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;
  ~MetricRegistry();

  // Returns the metric of this family with these labels, created by the first request.
  Counter& Get(const CounterFamily& family, const LabelValues& labels = {});
  Gauge& Get(const GaugeFamily& family, const LabelValues& labels = {});
  Histogram& Get(const HistogramFamily& family, std::vector<double> bounds,
                 const LabelValues& labels = {});

  // Adds a gauge whose value `read` computes. Threads: the scraping thread calls `read`, which must
  // not block or use the registry. Lifetime: what `read` uses must outlive the registry.
  void AddComputedGauge(const GaugeFamily& family, const LabelValues& labels,
                        std::function<double()> read);

  // Returns all metrics in the Prometheus text format 0.0.4, ordered by name and labels.
  std::string Serialize() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace simurgh
