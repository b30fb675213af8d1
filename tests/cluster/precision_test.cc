// Training with numbers that are rounded on their way, or used again, on real data in one process.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/cluster/standalone_run.h"

namespace simurgh::testing {
namespace {

constexpr char kAdult[] = "config/adult.yaml";

// Value of a series without labels.
double ValueOf(const std::string& metrics, const std::string& series) {
  const size_t at = metrics.find("\n" + series + " ");
  REQUIRE(at != std::string::npos);
  return std::stod(metrics.substr(at + series.size() + 2));
}

std::vector<std::string> Precisions(const std::string& embeddings, const std::string& gradients) {
  return {"training.embedding_precision=" + embeddings, "training.gradient_precision=" + gradients};
}

TEST_CASE("Adult stays in its band of AUC in every precision of the wire") {
  const double exact = TrainStandalone(kAdult, 2, {}).auc;
  CHECK(exact > 0.92);
  for (const auto& [embeddings, gradients] :
       {std::pair{"bf16", "bf16"}, {"f32", "int8"}, {"f16", "f16"}, {"int8", "int8"}}) {
    CAPTURE(embeddings, gradients);
    CHECK(TrainStandalone(kAdult, 2, Precisions(embeddings, gradients)).auc ==
          Approx(exact).margin(0.003));
  }
}

TEST_CASE("Adult stays in its band with rows that are rounded before they are pooled") {
  const double exact = TrainStandalone(kAdult, 2, {}).auc;
  for (const std::string precision : {"bf16", "int8"}) {
    CAPTURE(precision);
    std::vector<std::string> overrides = Precisions(precision, precision);
    overrides.emplace_back("training.embeddings=rows");
    CHECK(TrainStandalone(kAdult, 2, overrides).auc == Approx(exact).margin(0.003));
  }
}

TEST_CASE("Adult stays in its band where rows and their gradients travel in 16 bits") {
  const double exact = TrainStandalone(kAdult, 2, {}).auc;
  for (const auto& [rows, gradients] :
       {std::pair{"bf16", "bf16"}, {"f16", "f32"}, {"f32", "bf16"}, {"f16", "f16"}}) {
    CAPTURE(rows, gradients);
    const double auc =
        TrainStandalone(kAdult, 2,
                        {std::string("embedding_worker.row_precision=") + rows,
                         std::string("embedding_worker.row_gradient_precision=") + gradients})
            .auc;
    CHECK(auc == Approx(exact).margin(0.003));
  }
}

struct RowCacheRun {
  double auc = 0;
  std::string metrics;

  // Number of observations of a histogram above one of its bounds.
  double Beyond(const std::string& histogram, const std::string& bound) const {
    return ValueOf(metrics, histogram + "_count") -
           ValueOf(metrics, histogram + "_bucket{le=\"" + bound + "\"}");
  }
};

RowCacheRun TrainWithRowCache(uint32_t age, uint32_t staleness) {
  MetricRegistry registry;
  const Outcome outcome = TrainStandalone(kAdult, 2,
                                          {"embedding_worker.row_cache_bytes=4000000",
                                           "training.staleness=" + std::to_string(staleness),
                                           "training.row_age_steps=" + std::to_string(age)},
                                          &registry);
  return {.auc = outcome.auc, .metrics = registry.Serialize()};
}

constexpr char kRowAges[] = "simurgh_worker_row_cache_age_steps";
constexpr char kStaleness[] = "simurgh_nn_staleness_steps";

// Ages and staleness are powers of two: a histogram's bound is exact there.
TEST_CASE("Adult stays in its band with rows that are used again, none of them too old") {
  const double exact = TrainStandalone(kAdult, 2, {"training.staleness=4"}).auc;
  for (const uint32_t age : {1, 2}) {
    CAPTURE(age);
    const RowCacheRun run = TrainWithRowCache(age, 4);
    CHECK(run.auc == Approx(exact).margin(0.003));
    CHECK(run.Beyond(kRowAges, std::to_string(age)) == 0);
    CHECK(run.Beyond(kStaleness, "4") == 0);
  }
}

// With one batch in flight, a pull finds all rows of the previous batch in the cache.
TEST_CASE("Rows are used again up to the age that is allowed, which counts as staleness") {
  for (const uint32_t age : {1, 2}) {
    CAPTURE(age);
    const RowCacheRun run = TrainWithRowCache(age, age + 1);
    const double hits = ValueOf(run.metrics, "simurgh_worker_row_cache_hits_total");
    const double misses = ValueOf(run.metrics, "simurgh_worker_row_cache_misses_total");
    CHECK(hits > 0.3 * (hits + misses));
    CHECK(run.Beyond(kRowAges, std::to_string(age)) == 0);
    CHECK(run.Beyond(kStaleness, std::to_string(age)) == 0);
    if (age == 1) continue;
    CHECK(run.Beyond(kRowAges, "1") > 0);
    CHECK(run.Beyond(kStaleness, "1") > 0);
  }
}

TEST_CASE("Rounding by chance repeats to the last byte, with 1 and 2 servers, and counts") {
  std::vector<std::string> overrides = Reproducible("4");
  const Outcome exact = TrainStandalone(kAdult, 1, overrides);
  for (const std::string& more : Precisions("bf16", "int8")) overrides.push_back(more);
  const Outcome rounded = TrainStandalone(kAdult, 1, overrides);
  CHECK(rounded == TrainStandalone(kAdult, 2, overrides));
  CHECK_FALSE(rounded == exact);
}

}  // namespace
}  // namespace simurgh::testing
