#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "nn/cuda/cuda_network.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "train/nccl_sums.h"

namespace simurgh::testing {

inline constexpr std::chrono::milliseconds kNcclTimeout{60'000};

struct RankRun {
  Status status = absl::OkStatus();
  TrainingRun run;
};

// Trains on the device of the rank's number. The same batches on every rank, so mean gradients
// equal one rank's.
inline RankRun TrainAsRank(Collective& collective, const AllReduceConfig& allreduce) {
  RankRun result;
  const auto train = [&]() -> Status {
    DenseNetworkOptions options = RunOptions({});
    options.cuda_device = collective.rank();
    SIMURGH_ASSIGN_OR_RETURN(const cuda::CudaNetwork created,
                             cuda::CreateCudaNetwork(EveryLayer(Sigmoid()), options, {}));
    std::string reason;
    SIMURGH_ASSIGN_OR_RETURN(const auto sums, ConnectDevices(*created.network, collective,
                                                             LoadNccl(), kNcclTimeout, &reason));
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

}  // namespace simurgh::testing
