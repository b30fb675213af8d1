// Training with embeddings and gradients that are rounded on their way, on real data in one
// process.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/cluster/standalone_run.h"

namespace simurgh::testing {
namespace {

constexpr char kAdult[] = "config/adult.yaml";

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
