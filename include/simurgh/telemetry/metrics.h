#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace simurgh {

namespace internal {

// Threads beyond this number share cells, which costs them time and loses nothing.
inline constexpr size_t kMetricSlots = 16;

// The cell of the calling thread, in [0, kMetricSlots).
size_t MetricSlot();

struct alignas(64) CounterCell {
  std::atomic<uint64_t> value{0};
};

struct alignas(64) SumCell {
  std::atomic<double> value{0};
};

// Eight bucket counts: a cache line that only one slot writes.
struct alignas(64) BucketCells {
  std::array<std::atomic<uint64_t>, 8> counts{};
};

}  // namespace internal

// Label names and values of one metric, in any order. Names as Prometheus has them, values any
// UTF-8. Each combination is a time series of its own: values come from a small fixed set, never
// from data.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// A number of events, which only grows.
//
// Threads: any. A thread adds to a cell of its own; nothing is lost, and a reader sees every
// addition that happened before its call. Cost: one relaxed addition on a cache line that few other
// threads write.
class Counter {
 public:
  void Add(uint64_t count = 1) {
    cells_[internal::MetricSlot()].value.fetch_add(count, std::memory_order_relaxed);
  }

  uint64_t value() const;

 private:
  std::array<internal::CounterCell, internal::kMetricSlots> cells_;
};

// A quantity that goes up and down.
//
// Threads: any; all write the same word, so not for the path of a row.
class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double difference) { value_.fetch_add(difference, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Counts of values by size: bucket i holds values in (bounds[i-1], bounds[i]], the last one all
// that are larger.
//
// Threads: any; as Counter. A snapshot taken while others observe may hold a value's count and not
// yet its sum. Cost: a binary search of the bounds and two relaxed additions.
class Histogram {
 public:
  struct Snapshot {
    std::vector<uint64_t> counts;  // bounds().size() + 1 buckets, each without those below it.
    double sum = 0;

    uint64_t total() const;
  };

  // Requires bounds that are finite and strictly ascending.
  explicit Histogram(std::vector<double> bounds);

  // The value, so many times. What is not finite is counted in the last bucket and left out of the
  // sum.
  void Observe(double value, uint64_t times = 1);

  // In seconds.
  void Observe(std::chrono::nanoseconds duration) {
    Observe(std::chrono::duration<double>(duration).count());
  }

  const std::vector<double>& bounds() const { return bounds_; }
  Snapshot snapshot() const;

 private:
  const std::vector<double> bounds_;
  const size_t lines_a_slot_;
  std::vector<internal::BucketCells> counts_;  // kMetricSlots x lines_a_slot_.
  std::array<internal::SumCell, internal::kMetricSlots> sums_;
};

// Bounds in seconds for durations: from `first` on, each `factor` times the one before, `count` of
// them. Requires first > 0, factor > 1.
std::vector<double> ExponentialSeconds(std::chrono::nanoseconds first, double factor, size_t count);

// 20 µs to about 20 s in powers of two: the bounds of every latency, so that they compare.
std::vector<double> LatencyBuckets();

// Bounds for counts and sizes: 1, 2, 4, ... up to the first power of two that is not below
// `largest`.
std::vector<double> PowersOfTwo(uint64_t largest);

// All metrics of a process and the text that Prometheus reads.
//
// Names are simurgh_<service>_<noun>_<unit>, a counter's ending in _total. A name is one family:
// one type, one help text, one set of label names, and for histograms one set of bounds; a second
// asking that differs is a programming error.
//
// Threads: all members may be called from any thread. Getting a metric takes a lock: do it once,
// keep the reference. Lifetime: references stay good as long as the registry.
class MetricRegistry {
 public:
  MetricRegistry();
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;
  ~MetricRegistry();

  // The metric of that name and those labels, made when first asked for.
  Counter& GetCounter(const std::string& name, const std::string& help, MetricLabels labels = {});
  Gauge& GetGauge(const std::string& name, const std::string& help, MetricLabels labels = {});
  Histogram& GetHistogram(const std::string& name, const std::string& help,
                          std::vector<double> bounds, MetricLabels labels = {});

  // A gauge that is computed when it is read.
  // Threads: `read` is called on the thread that scrapes, must not block, and must not use the
  // registry. Lifetime: what `read` uses outlives the registry.
  void AddComputedGauge(const std::string& name, const std::string& help, MetricLabels labels,
                        std::function<double()> read);

  // Everything, in the Prometheus text format 0.0.4; families and series in the order of their
  // names and labels.
  std::string Serialize() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace simurgh
