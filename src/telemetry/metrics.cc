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

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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

// Label names and values, ordered by name.
using Labels = std::vector<std::pair<std::string, std::string>>;

struct FamilySeries {
  const MetricFamily* family;
  std::map<Labels, Series> series;
};

const char* NameOf(MetricFamily::Type type) {
  switch (type) {
    case MetricFamily::Type::kCounter:
      return "counter";
    case MetricFamily::Type::kGauge:
      return "gauge";
    case MetricFamily::Type::kHistogram:
      return "histogram";
  }
  return "";
}

prometheus::MetricType PrometheusType(MetricFamily::Type type) {
  switch (type) {
    case MetricFamily::Type::kCounter:
      return prometheus::MetricType::Counter;
    case MetricFamily::Type::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricFamily::Type::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

bool IsName(std::string_view name) {
  const auto word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::ranges::all_of(name, word);
}

// The head of the list of all families. Constant initialization comes before all constructors.
constinit const MetricFamily* first_family = nullptr;

}  // namespace

MetricFamily::MetricFamily(Type type, const char* name, const char* help,
                           std::initializer_list<const char*> labels)
    : type_(type), name_(name), help_(help), next_(std::exchange(first_family, this)) {
  SIMURGH_CHECK(IsName(name)) << "'" << name << "' is not a valid metric name";
  SIMURGH_CHECK_LE(labels.size(), labels_.size()) << name;
  for (const char* label : labels) {
    SIMURGH_CHECK(IsName(label)) << name << ": '" << label << "' is not a valid label name";
    labels_[label_count_++] = label;
  }
}

std::string MetricFamily::DescribeAll() {
  std::map<std::string, const MetricFamily*> families;
  for (const MetricFamily* family = first_family; family != nullptr; family = family->next_) {
    SIMURGH_CHECK(families.emplace(family->name(), family).second)
        << family->name() << " is declared twice";
  }
  std::string text;
  for (const auto& [name, family] : families) {
    absl::StrAppend(&text, name, "\t", NameOf(family->type()), "\t",
                    absl::StrJoin(family->labels(), " "), "\t", family->help(), "\n");
  }
  return text;
}

namespace {

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
  // Returns the series of this family with these labels; `make` creates a missing one.
  template <typename Make>
  Series& Get(const MetricFamily& family, const LabelValues& values, Make make) {
    SIMURGH_CHECK_EQ(values.size(), family.labels().size()) << family.name();
    Labels labels;
    for (size_t i = 0; i < values.size(); ++i) labels.emplace_back(family.labels()[i], values[i]);
    std::ranges::sort(labels);
    MutexLock lock(mutex_);
    FamilySeries& all =
        families_.try_emplace(family.name(), FamilySeries{&family, {}}).first->second;
    SIMURGH_CHECK(all.family == &family) << family.name() << " is declared twice";
    const auto [series, is_new] = all.series.try_emplace(std::move(labels));
    if (is_new) series->second = make();
    return series->second;
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> result;
    MutexLock lock(mutex_);
    for (const auto& [name, all] : families_) {
      prometheus::MetricFamily out;
      out.name = name;
      out.help = all.family->help();
      out.type = PrometheusType(all.family->type());
      for (const auto& [labels, series] : all.series) {
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
  std::map<std::string, FamilySeries> families_ ABSL_GUARDED_BY(mutex_);
};

MetricRegistry::MetricRegistry() : impl_(std::make_unique<Impl>()) {}

MetricRegistry::~MetricRegistry() = default;

Counter& MetricRegistry::Get(const CounterFamily& family, const LabelValues& labels) {
  Series& series = impl_->Get(family, labels, [] { return std::make_unique<Counter>(); });
  return *std::get<std::unique_ptr<Counter>>(series);
}

Gauge& MetricRegistry::Get(const GaugeFamily& family, const LabelValues& labels) {
  Series& series = impl_->Get(family, labels, [] { return std::make_unique<Gauge>(); });
  auto* gauge = std::get_if<std::unique_ptr<Gauge>>(&series);
  SIMURGH_CHECK(gauge != nullptr) << family.name() << " exists as a computed gauge";
  return **gauge;
}

Histogram& MetricRegistry::Get(const HistogramFamily& family, std::vector<double> bounds,
                               const LabelValues& labels) {
  Series& series =
      impl_->Get(family, labels, [&bounds] { return std::make_unique<Histogram>(bounds); });
  Histogram& histogram = *std::get<std::unique_ptr<Histogram>>(series);
  SIMURGH_CHECK(histogram.bounds() == bounds) << family.name() << " exists with other bounds";
  return histogram;
}

void MetricRegistry::AddComputedGauge(const GaugeFamily& family, const LabelValues& labels,
                                      std::function<double()> read) {
  bool made = false;
  impl_->Get(family, labels, [&] {
    made = true;
    return Series(std::move(read));
  });
  SIMURGH_CHECK(made) << family.name() << " exists with these labels";
}

std::string MetricRegistry::Serialize() const {
  return prometheus::TextSerializer().Serialize(impl_->Collect());
}

}  // namespace simurgh
