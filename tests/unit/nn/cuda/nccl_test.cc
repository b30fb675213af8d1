#include <catch2/catch.hpp>

#include "tests/unit/nn/cuda/nccl_run.h"

// One rank with NCCL. tests/cluster/nccl_ranks_test.cc has several.
namespace simurgh::testing {
namespace {

using Precision = AllReduceConfig::Precision;

TEST_CASE("one rank with NCCL in f32 has the bits of a rank without sums") {
  const auto alone = cuda::CreateCudaNetwork(EveryLayer(Sigmoid()), RunOptions({}), {});
  REQUIRE(alone.ok());
  const TrainingRun expected = Train(*alone->network, 12);
  const auto collective = NewLocalCollective();
  const RankRun actual = TrainAsRank(*collective, {.precision = Precision::kF32});
  INFO(actual.status.message());
  REQUIRE(actual.status.ok());
  CHECK(SameBits(actual.run.parameters, expected.parameters));
  CHECK(SameBits(actual.run.state, expected.state));
}

TEST_CASE("two towers of one rank with NCCL train as those of a rank without sums") {
  const TwoTowerCase run{.uniform = 6};
  const auto alone = cuda::CreateCudaNetwork(run.model(), run.options(), {});
  REQUIRE(alone.ok());
  const TwoTowerRun expected = TrainTwoTowers(*alone->network, run, 9);
  const auto collective = NewLocalCollective();
  const TowerRankRun actual = TrainTowersAsRank(*collective, run);
  INFO(actual.status.message());
  REQUIRE(actual.status.ok());
  CheckSameRun(actual.run, expected, 1e-4);
}

TEST_CASE("one rank with NCCL in bf16 and int8 differs by rounding errors minus its residual") {
  const auto collective = NewLocalCollective();
  const RankRun exact = TrainAsRank(*collective, {.precision = Precision::kF32});
  INFO(exact.status.message());
  REQUIRE(exact.status.ok());
  for (const Precision precision : {Precision::kBf16, Precision::kInt8}) {
    const auto own = NewLocalCollective();
    const RankRun rounded = TrainAsRank(*own, {.precision = precision, .bucket_bytes = 4'096});
    INFO(rounded.status.message());
    REQUIRE(rounded.status.ok());
    CHECK(RelativeError(rounded.run.parameters, exact.run.parameters) < 0.02);
    CHECK_FALSE(SameBits(rounded.run.parameters, exact.run.parameters));
  }
}

}  // namespace
}  // namespace simurgh::testing
