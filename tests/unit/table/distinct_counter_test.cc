#include "table/distinct_counter.h"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/arena.h"
#include "table/table.h"

namespace simurgh {
namespace {

TEST_CASE("the estimate is within its error at every size") {
  // Relative errors of many counters: their mean is no bias, their spread the standard error.
  constexpr int kCounters = 60;
  for (const uint64_t size : {10ULL, 100ULL, 1000ULL, 5000ULL, 20'000ULL, 300'000ULL}) {
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kCounters; ++i) {
      DistinctCounter counter;
      // Dense ids in one counter, random ids in the next.
      Random random(size + static_cast<uint64_t>(i));
      for (uint64_t n = 0; n < size; ++n) {
        counter.Add(i % 2 == 0 ? n + static_cast<uint64_t>(i) * size : random());
      }
      const double error = counter.Estimate() / static_cast<double>(size) - 1;
      sum += error;
      squares += error * error;
    }
    const double standard = 1.04 / std::sqrt(double{DistinctCounter::kRegisters});
    CAPTURE(size, sum / kCounters, std::sqrt(squares / kCounters));
    CHECK(std::sqrt(squares / kCounters) <= 1.3 * standard);
    CHECK(std::abs(sum / kCounters) <= 4 * standard / std::sqrt(double{kCounters}));
  }
}

TEST_CASE("an id counts once, and an empty counter estimates zero") {
  DistinctCounter counter;
  CHECK(counter.Estimate() == 0);
  for (int i = 0; i < 1000; ++i) counter.Add(42);
  CHECK(counter.Estimate() == Approx(1).epsilon(1e-3));
  counter.Clear();
  CHECK(counter.Estimate() == 0);
}

TEST_CASE("merged counters equal the counter of all ids") {
  Random random(1);
  std::vector<DistinctCounter> parts(4);
  DistinctCounter whole;
  for (int i = 0; i < 50'000; ++i) {
    const uint64_t id = random.Below(30'000);
    whole.Add(id);
    parts[random.Below(4)].Add(id);
  }
  DistinctCounter merged;
  for (const DistinctCounter& part : parts) merged.Merge(part);
  CHECK(merged.Estimate() == whole.Estimate());
  merged.Merge(DistinctCounter());
  CHECK(merged.Estimate() == whole.Estimate());
}

// Rows that are found need no counting: their ids were counted before they had rows.
TEST_CASE("a table counts every pulled id: with a row, without one and evicted") {
  TableConfig config;
  config.name = "t";
  config.dim = 1;
  config.capacity_rows = 500;
  config.admission.kind = AdmissionConfig::Kind::kProbability;
  config.admission.probability = 0.5F;
  Arena arena = Arena::Create(Table::ReservationFor(config)).value();
  Table table(config, 1, arena);
  DistinctCounter all;
  Random random(2);
  std::vector<uint64_t> ids(100);
  std::vector<float> rows(100);
  for (uint64_t step = 0; step < 2000; ++step) {
    for (uint64_t& id : ids) {
      id = static_cast<uint64_t>(20'000 * random.Uniform() * random.Uniform());
      all.Add(id);
    }
    table.Pull(ids, {rows.data(), 100, 1}, step);
    REQUIRE(table.distinct_ids().Estimate() == all.Estimate());
  }
  CHECK(table.stats().evicted > 1000);
  // Evaluation does not count ids.
  const uint64_t unseen = 1'000'000;
  table.Evaluate({&unseen, 1}, {rows.data(), 1, 1});
  CHECK(table.distinct_ids().Estimate() == all.Estimate());
}

}  // namespace
}  // namespace simurgh
