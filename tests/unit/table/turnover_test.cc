// Which rows a full table keeps, and what becomes of the gradients of those that go.

#include <algorithm>
#include <cmath>
#include <list>
#include <unordered_map>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/partition.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh {
namespace {

TableConfig Config(uint32_t dim, uint64_t capacity) {
  TableConfig config;
  config.name = "t";
  config.dim = dim;
  config.capacity_rows = capacity;
  config.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
  return config;
}

// Hits of a cache that moves every requested id to the front.
class ExactLru {
 public:
  explicit ExactLru(size_t capacity) : capacity_(capacity) {}

  bool Ask(uint64_t id) {
    const auto found = places_.find(id);
    if (found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return true;
    }
    if (order_.size() == capacity_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    order_.push_front(id);
    places_[id] = order_.begin();
    return false;
  }

 private:
  size_t capacity_;
  std::list<uint64_t> order_;
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> places_;
};

TEST_CASE("on a Zipf trace the hit rate is exact LRU's, within half a point", "[minutes]") {
  const size_t capacity = GENERATE(1000, 30'000);
  const double exponent = GENERATE(0.8, 1.05);
  constexpr uint64_t kIds = 200'000;
  std::vector<double> cumulative(kIds);
  double sum = 0;
  for (uint64_t i = 0; i < kIds; ++i) {
    sum += std::pow(static_cast<double>(i + 1), -exponent);
    cumulative[i] = sum;
  }
  Random random(4);
  auto partition = Partition::Create({Config(1, capacity)}, 1).value();
  ExactLru exact(capacity);
  std::vector<uint64_t> ids(256);
  std::vector<float> rows(ids.size());
  uint64_t asked = 0;
  uint64_t hits = 0;
  uint64_t exact_hits = 0;
  for (uint64_t step = 0; step < 4000; ++step) {
    for (uint64_t& id : ids) {
      const auto at =
          std::lower_bound(cumulative.begin(), cumulative.end(), random.Uniform() * sum);
      id = static_cast<uint64_t>(at - cumulative.begin()) * 0x9e3779b97f4a7c15ULL;
    }
    const PullGroup group{0, ids, {rows.data(), ids.size(), 1}};
    const auto report =
        testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, step}, 0, {&group, 1});
    REQUIRE(report.ok());
    const bool warm = step >= 1000;
    for (const uint64_t id : ids) exact_hits += static_cast<uint64_t>(exact.Ask(id) && warm);
    if (!warm) continue;
    asked += ids.size();
    hits += report->found;
  }
  const double rate = static_cast<double>(hits) / static_cast<double>(asked);
  const double exact_rate = static_cast<double>(exact_hits) / static_cast<double>(asked);
  CAPTURE(capacity, exponent, rate, exact_rate);
  CHECK(exact_rate > 0.1);  // Otherwise the trace is meaningless.
  CHECK(exact_rate < 0.99);
  CHECK(rate >= exact_rate - 0.005);
}

// PERSIA's two defects: a row that admission refused, or that was evicted after its pull, shifted
// the gradients of all rows behind it.
TEST_CASE("turnover between pull and push does not misplace gradients") {
  TableConfig config = Config(2, 100);
  config.weight_bound = 1e6F;
  config.initializer.kind = InitializerConfig::Kind::kZero;
  config.admission = {.kind = AdmissionConfig::Kind::kProbability, .probability = 0.75F};
  config.eviction.low_use = {.below = 3, .idle_steps = 2};
  auto partition = Partition::Create({config}, 1).value();
  Random random(6);
  uint64_t refused = 0;
  uint64_t missing = 0;
  uint64_t push_step = 0;
  // Every gradient of an id is minus the id: weights are multiples of it, in both columns.
  for (uint64_t step = 0; step < 3000; ++step) {
    std::vector<std::vector<uint64_t>> requests(3);
    for (auto& ids : requests) {
      for (uint64_t id = 1 + random.Below(9); id < 200; id += 1 + random.Below(20))
        ids.push_back(id);
      std::vector<float> rows(ids.size() * 2);
      const PullGroup group{0, ids, {rows.data(), ids.size(), 2}};
      const auto report =
          testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, step}, 0, {&group, 1});
      REQUIRE(report.ok());
      refused += report->rejected_admission;
    }
    for (const auto& ids : requests) {  // By now, rows of the first requests are evicted.
      std::vector<float> gradients;
      for (const uint64_t id : ids) gradients.insert(gradients.end(), 2, -static_cast<float>(id));
      const PushGroup group{0, 1.0F, ids, {gradients.data(), ids.size(), 2}};
      const auto report = testing::PushWhole(*partition, {1, 0, push_step++}, {&group, 1});
      REQUIRE(report.ok());
      missing += report->missing;
    }
    partition->table(0).ForEachRow([&](const RowContents& row) {
      const auto times = row.weights[0] / static_cast<float>(row.id);
      REQUIRE(times == std::floor(times));
      REQUIRE(row.weights[0] == row.weights[1]);
    });
  }
  CHECK(refused > 1000);
  CHECK(missing > 10'000);
  const TableStats stats = partition->table(0).stats();
  CHECK(stats.evicted_for[static_cast<size_t>(EvictionCause::kCapacity)] > 1000);
  CHECK(stats.evicted_for[static_cast<size_t>(EvictionCause::kLowUse)] > 100);
}

}  // namespace
}  // namespace simurgh
