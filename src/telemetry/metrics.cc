#include "telemetry/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <variant>

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "base/check.h"
#include "base/mutex.h"

namespace simurgh {

namespace internal {

size_t MetricSlot() {
  static std::atomic<size_t> next_thread{0};
  thread_local const size_t slot =
      next_thread.fetch_add(1, std::memory_order_relaxed) % kMetricSlots;
  return slot;
}

}  // namespace internal

constexpr size_t kCountsALine = std::tuple_size_v<decltype(internal::BucketCells::counts)>;

uint64_t Counter::value() const {
  uint64_t sum = 0;
  for (const auto& cell : cells_) sum += cell.value.load(std::memory_order_relaxed);
  return sum;
}

uint64_t Histogram::Snapshot::total() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)),
      lines_a_slot_(bounds_.size() / kCountsALine + 1),
      counts_(internal::kMetricSlots * lines_a_slot_) {
  for (size_t i = 0; i < bounds_.size(); ++i) {
    SIMURGH_CHECK(std::isfinite(bounds_[i])) << "bound " << i << " is " << bounds_[i];
    if (i > 0) SIMURGH_CHECK_LT(bounds_[i - 1], bounds_[i]) << "bounds must ascend";
  }
}

void Histogram::Observe(double value, uint64_t times) {
  if constexpr (!internal::kCounts) return;
  const size_t slot = internal::MetricSlot();
  size_t bucket = bounds_.size();
  if (std::isfinite(value)) {
    bucket = static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) -
                                 bounds_.begin());
    sums_[slot].value.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
  }
  counts_[slot * lines_a_slot_ + bucket / kCountsALine].counts[bucket % kCountsALine].fetch_add(
      times, std::memory_order_relaxed);
}

Histogram::Snapshot Histogram::snapshot() const {
  Snapshot result;
  result.counts.resize(bounds_.size() + 1);
  for (size_t slot = 0; slot < internal::kMetricSlots; ++slot) {
    for (size_t bucket = 0; bucket < result.counts.size(); ++bucket) {
      result.counts[bucket] +=
          counts_[slot * lines_a_slot_ + bucket / kCountsALine].counts[bucket % kCountsALine].load(
              std::memory_order_relaxed);
    }
    result.sum += sums_[slot].value.load(std::memory_order_relaxed);
  }
  return result;
}

std::vector<double> ExponentialSeconds(std::chrono::nanoseconds first, double factor,
                                       size_t count) {
  SIMURGH_CHECK_LT(0, first.count());
  SIMURGH_CHECK_LT(1.0, factor);
  std::vector<double> bounds(count);
  double bound = std::chrono::duration<double>(first).count();
  for (double& each : bounds) {
    each = bound;
    bound *= factor;
  }
  return bounds;
}

std::vector<double> LatencyBuckets() {
  return ExponentialSeconds(std::chrono::microseconds(20), 2.0, 21);
}

std::vector<double> PowersOfTwo(uint64_t largest) {
  std::vector<double> bounds{1.0};
  while (bounds.back() < static_cast<double>(largest)) bounds.push_back(2.0 * bounds.back());
  return bounds;
}

namespace {

using ComputedGauge = std::function<double()>;
using Series = std::variant<std::unique_ptr<Counter>, std::unique_ptr<Gauge>,
                            std::unique_ptr<Histogram>, ComputedGauge>;

struct Family {
  prometheus::MetricType type;
  std::string help;
  std::map<MetricLabels, Series> series;
};

bool IsName(std::string_view name) {
  const auto word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::ranges::all_of(name, word);
}

void Fill(const std::unique_ptr<Counter>& counter, prometheus::ClientMetric& out) {
  out.counter.value = static_cast<double>(counter->value());
}

void Fill(const std::unique_ptr<Gauge>& gauge, prometheus::ClientMetric& out) {
  out.gauge.value = gauge->value();
}

void Fill(const ComputedGauge& read, prometheus::ClientMetric& out) { out.gauge.value = read(); }

void Fill(const std::unique_ptr<Histogram>& histogram, prometheus::ClientMetric& out) {
  const Histogram::Snapshot snapshot = histogram->snapshot();
  uint64_t cumulative = 0;
  for (size_t i = 0; i < histogram->bounds().size(); ++i) {
    cumulative += snapshot.counts[i];
    out.histogram.bucket.push_back({cumulative, histogram->bounds()[i]});
  }
  out.histogram.sample_count = snapshot.total();  // The serializer adds the bucket "+Inf".
  out.histogram.sample_sum = snapshot.sum;
}

}  // namespace

class MetricRegistry::Impl : public prometheus::Collectable {
 public:
  // Returns the series of this name and these labels; `make` creates a missing one.
  template <typename Make>
  Series& Get(const std::string& name, const std::string& help, prometheus::MetricType type,
              MetricLabels labels, Make make) {
    SIMURGH_CHECK(IsName(name)) << "'" << name << "' is not a valid metric name";
    std::ranges::sort(labels);
    for (const auto& [label, value] : labels) {
      SIMURGH_CHECK(IsName(label)) << name << ": '" << label << "' is not a valid label name";
    }
    MutexLock lock(mutex_);
    Family& family = families_.try_emplace(name, Family{type, help, {}}).first->second;
    SIMURGH_CHECK(family.type == type && family.help == help)
        << name << " exists with another type or help text";
    constexpr auto kLabelName = &MetricLabels::value_type::first;
    SIMURGH_CHECK(family.series.empty() || std::ranges::equal(family.series.begin()->first, labels,
                                                              {}, kLabelName, kLabelName))
        << name << " exists with other label names";
    const auto [series, is_new] = family.series.try_emplace(std::move(labels));
    if (is_new) series->second = make();
    return series->second;
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> result;
    MutexLock lock(mutex_);
    for (const auto& [name, family] : families_) {
      prometheus::MetricFamily out;
      out.name = name;
      out.help = family.help;
      out.type = family.type;
      for (const auto& [labels, series] : family.series) {
        prometheus::ClientMetric metric;
        for (const auto& [label, value] : labels) metric.label.push_back({label, value});
        std::visit([&metric](const auto& source) { Fill(source, metric); }, series);
        // A gauge without a value.
        if (std::isnan(metric.gauge.value)) continue;
        out.metric.push_back(std::move(metric));
      }
      if (!out.metric.empty()) result.push_back(std::move(out));
    }
    return result;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, Family> families_ ABSL_GUARDED_BY(mutex_);
};

MetricRegistry::MetricRegistry() : impl_(std::make_unique<Impl>()) {}

MetricRegistry::~MetricRegistry() = default;

Counter& MetricRegistry::GetCounter(const std::string& name, const std::string& help,
                                    MetricLabels labels) {
  Series& series = impl_->Get(name, help, prometheus::MetricType::Counter, std::move(labels),
                              [] { return std::make_unique<Counter>(); });
  return *std::get<std::unique_ptr<Counter>>(series);
}

Gauge& MetricRegistry::GetGauge(const std::string& name, const std::string& help,
                                MetricLabels labels) {
  Series& series = impl_->Get(name, help, prometheus::MetricType::Gauge, std::move(labels),
                              [] { return std::make_unique<Gauge>(); });
  auto* gauge = std::get_if<std::unique_ptr<Gauge>>(&series);
  SIMURGH_CHECK(gauge != nullptr) << name << " exists as a computed gauge";
  return **gauge;
}

Histogram& MetricRegistry::GetHistogram(const std::string& name, const std::string& help,
                                        std::vector<double> bounds, MetricLabels labels) {
  Series& series = impl_->Get(name, help, prometheus::MetricType::Histogram, std::move(labels),
                              [&bounds] { return std::make_unique<Histogram>(bounds); });
  Histogram& histogram = *std::get<std::unique_ptr<Histogram>>(series);
  SIMURGH_CHECK(histogram.bounds() == bounds) << name << " exists with other bounds";
  return histogram;
}

void MetricRegistry::AddComputedGauge(const std::string& name, const std::string& help,
                                      MetricLabels labels, std::function<double()> read) {
  bool made = false;
  impl_->Get(name, help, prometheus::MetricType::Gauge, std::move(labels), [&] {
    made = true;
    return Series(std::move(read));
  });
  SIMURGH_CHECK(made) << name << " exists with these labels";
}

std::string MetricRegistry::Serialize() const {
  return prometheus::TextSerializer().Serialize(impl_->Collect());
}

}  // namespace simurgh
