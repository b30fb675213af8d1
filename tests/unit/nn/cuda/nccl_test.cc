#include <algorithm>
#include <vector>

#include <cuda_runtime.h>

#include <catch2/catch.hpp>

#include "nn/cuda/cuda_network.h"
#include "simurgh/train/nccl_sums.h"
#include "tests/support/skip.h"
#include "tests/unit/collective/rank_threads.h"
#include "tests/unit/nn/cuda/training_run.h"

// Ranks with NCCL: one on the first device, and one on each device of the machine.
namespace simurgh::testing {
namespace {

using Precision = AllReduceConfig::Precision;

constexpr std::chrono::milliseconds kTimeout{60'000};

struct RankRun {
  Status status = absl::OkStatus();
  TrainingRun run;
};

// The same batches on every rank, so mean gradients equal one rank's.
RankRun TrainAsRank(Collective& collective, const AllReduceConfig& allreduce) {
  RankRun result;
  const auto train = [&]() -> Status {
    DenseNetworkOptions options = RunOptions({});
    options.cuda_device = collective.rank();
    SIMURGH_ASSIGN_OR_RETURN(const cuda::CudaNetwork created,
                             cuda::CreateCudaNetwork(EveryLayer(Sigmoid()), options, {}));
    std::string reason;
    SIMURGH_ASSIGN_OR_RETURN(const auto sums, ConnectDevices(*created.network, collective,
                                                             LoadNccl(), kTimeout, &reason));
    if (sums == nullptr) return absl::NotFoundError(reason);
    SIMURGH_RETURN_IF_ERROR(created.network->JoinRanks({sums.get(), allreduce, true}));
    result.run = Train(*created.network, 12);
    created.network->LeaveRanks();
    // Waits until all ranks are done.
    std::vector<std::byte> here(collective.ranks());
    return collective.Gather(Channel::kStep, std::span(here).first(1), here);
  };
  result.status = train();
  return result;
}

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

TEST_CASE("ranks on all devices of the machine end with the same weights") {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  if (devices < 2) SIMURGH_SKIP("the machine has one CUDA device");
  const auto ranks = static_cast<uint32_t>(devices);
  for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    std::vector<RankRun> runs(ranks);
    RunRanks(ranks, [&](std::unique_ptr<Collective>& collective) {
      runs[collective->rank()] = TrainAsRank(*collective, {precision, 4'096});
      return absl::OkStatus();
    });
    for (const RankRun& run : runs) {
      INFO(run.status.message());
      REQUIRE(run.status.ok());
      CHECK(SameBits(run.run.parameters, runs[0].run.parameters));
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
