#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nn/cuda/cuda_network.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/two_tower_run.h"
#include "train/nccl_sums.h"

namespace simurgh::testing {

inline constexpr std::chrono::milliseconds kNcclTimeout{60'000};

// Calls `train` with a network on the device of the rank's number, which sums by NCCL.
inline Status RunAsRank(Collective& collective, const AllReduceConfig& allreduce,
                        const ModelConfig& model, DenseNetworkOptions options,
                        const std::function<void(DenseNetwork&)>& train) {
  options.cuda_device = collective.rank();
  SIMURGH_ASSIGN_OR_RETURN(const cuda::CudaNetwork created,
                           cuda::CreateCudaNetwork(model, options, {}));
  std::string reason;
  SIMURGH_ASSIGN_OR_RETURN(const auto sums, ConnectDevices(*created.network, collective, LoadNccl(),
                                                           kNcclTimeout, &reason));
  if (sums == nullptr) return absl::NotFoundError(reason);
  SIMURGH_RETURN_IF_ERROR(created.network->JoinRanks({sums.get(), allreduce, true}));
  train(*created.network);
  created.network->LeaveRanks();
  // Waits until all ranks are done.
  std::vector<std::byte> here(collective.ranks());
  return collective.Gather(Channel::kStep, std::span(here).first(1), here);
}

struct RankRun {
  Status status = absl::OkStatus();
  TrainingRun run;
};

// The same batches on every rank, so mean gradients equal one rank's.
inline RankRun TrainAsRank(Collective& collective, const AllReduceConfig& allreduce) {
  RankRun result;
  result.status = RunAsRank(collective, allreduce, EveryLayer(Sigmoid()), RunOptions({}),
                            [&](DenseNetwork& network) { result.run = Train(network, 12); });
  return result;
}

struct TowerRankRun {
  Status status = absl::OkStatus();
  TwoTowerRun run;
};

// Trains two towers, whose items compete over all ranks. Other batches on every rank.
inline TowerRankRun TrainTowersAsRank(Collective& collective, const TwoTowerCase& run) {
  TowerRankRun result;
  const auto add_ranks = [&](RankStep& step) {
    step.rank = collective.rank();
    step.ranks = collective.ranks();
    step.gather = [&](std::span<const std::byte> own, std::span<std::byte> all) {
      return collective.Gather(Channel::kStep, own, all);
    };
    step.sum_floats = [](std::span<float>) { return absl::InternalError("the host was asked"); };
  };
  result.status = RunAsRank(collective, {}, run.model(), run.options(), [&](DenseNetwork& network) {
    result.run = TrainTwoTowers(network, run, 9, 1 + collective.rank(), add_ranks);
  });
  return result;
}

}  // namespace simurgh::testing
