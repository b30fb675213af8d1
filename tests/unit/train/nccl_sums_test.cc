#include "train/nccl_sums.h"

#include <future>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/waiting.h"
#include "tests/unit/collective/rank_threads.h"
#include "tests/unit/nn/cuda/host_backend.h"
#include "tests/unit/nn/test_models.h"
#include "tests/unit/train/fake_nccl.h"

// The way of sums between devices, with threads as ranks, a mesh between them, and a board in place
// of NCCL. Nothing is checked on their threads: Catch2's assertions belong to one.
namespace simurgh::testing {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};

// Has only a device.
class PlacedNetwork final : public DenseNetwork {
 public:
  explicit PlacedNetwork(std::optional<int> device) : device_(device) {}

  StatusOr<BatchResult> ForwardBackward(BatchBlock&, MatrixView<const float>,
                                        std::span<const float>, std::span<float>, const RankStep&,
                                        const std::function<void()>&) override {
    return absl::UnimplementedError("");
  }
  Status ApplyGradients(float) override { return absl::UnimplementedError(""); }
  Status Predict(BatchBlock&, MatrixView<const float>, std::span<float>) override {
    return absl::UnimplementedError("");
  }
  BlockPool& blocks() override { return *blocks_; }
  std::span<float> parameters() override { return {}; }
  std::span<float> gradients() override { return {}; }
  std::span<float> statistics() override { return {}; }
  std::span<const float> state() const override { return {}; }
  std::vector<DenseTensor> tensors() const override { return {}; }
  Status Restore(std::span<const float>, std::span<const float>) override {
    return absl::UnimplementedError("");
  }
  Status CheckFinite() override { return absl::OkStatus(); }
  std::optional<int> cuda_device() const override { return device_; }

 private:
  const std::optional<int> device_;
  const std::unique_ptr<BlockPool> blocks_ = NewBlockPool(0);
};

struct Group {
  explicit Group(uint32_t count) : board(count) {
    for (uint32_t rank = 0; rank < count; ++rank) {
      nccl.push_back(std::make_unique<FakeNccl>(board, rank));
    }
  }

  RankBoard board;
  std::vector<std::unique_ptr<FakeNccl>> nccl;
};

StatusOr<std::unique_ptr<DeviceSums>> Connect(Group& group, Collective& collective,
                                              milliseconds timeout) {
  const PlacedNetwork network(static_cast<int>(collective.rank()) + 4);
  const StatusOr<NcclLibrary*> library = group.nccl[collective.rank()].get();
  std::string reason;
  return ConnectDevices(network, collective, library, timeout, &reason);
}

// Waits like an executor for a device that does not finish.
Status WaitForFailure(DeviceSums& sums) {
  sums.StepEnqueued();
  while (true) {
    Status checked = sums.Check();
    if (!checked.ok()) {
      sums.GiveUp(checked);
      return checked;
    }
    testing::Pause(std::chrono::milliseconds(1));
  }
}

TEST_CASE("ranks with devices connect them, and sums, exchanges and gathers reach all") {
  for (const uint32_t ranks : {2U, 3U}) {
    Group group(ranks);
    const auto results = RunRanks(ranks, [&](std::unique_ptr<Collective>& collective) -> Status {
      const uint32_t rank = collective->rank();
      SIMURGH_ASSIGN_OR_RETURN(const auto sums, Connect(group, *collective, kLong));
      if (sums == nullptr) return absl::InternalError("not connected");
      std::vector<float> values{1.0F, static_cast<float>(rank)};
      SIMURGH_RETURN_IF_ERROR(sums->Sum(std::span(values), nullptr));
      std::vector<double> doubles{0.5};
      SIMURGH_RETURN_IF_ERROR(sums->Sum(std::span(doubles), nullptr));
      const float count = static_cast<float>(ranks);
      if (values != std::vector{count, count * (count - 1) / 2} || doubles[0] != 0.5 * ranks) {
        return absl::InternalError("wrong sums");
      }
      std::vector<std::byte> outgoing(ranks), incoming(ranks), all(ranks);
      for (uint32_t to = 0; to < ranks; ++to) outgoing[to] = std::byte(10 * rank + to);
      SIMURGH_RETURN_IF_ERROR(sums->Exchange(outgoing.data(), incoming.data(), 1, nullptr));
      SIMURGH_RETURN_IF_ERROR(sums->Gather({outgoing.data(), 1}, all.data(), nullptr));
      for (uint32_t from = 0; from < ranks; ++from) {
        const bool came = from == rank || incoming[from] == std::byte(10 * from + rank);
        if (!came || all[from] != std::byte(10 * from)) return absl::InternalError("wrong bytes");
      }
      sums->StepEnqueued();
      SIMURGH_RETURN_IF_ERROR(sums->Check());
      sums->StepEnded();
      return absl::OkStatus();
    });
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      CAPTURE(rank, results[rank].message());
      CHECK(results[rank].ok());
      CHECK(group.nccl[rank]->device_ == static_cast<int>(rank) + 4);
      CHECK(group.nccl[rank]->aborts_ == 0);
      CHECK(group.nccl[rank]->finishes_ == 1);
      CHECK(group.nccl[rank]->frees_ == 1);
    }
  }
}

TEST_CASE("a rank that ends first waits for the others") {
  Group group(3);
  const auto results = RunRanks(3, [&](std::unique_ptr<Collective>& collective) -> Status {
    SIMURGH_ASSIGN_OR_RETURN(const auto sums, Connect(group, *collective, milliseconds(1'000)));
    if (collective->rank() > 0) return absl::OkStatus();
    // For some heartbeats.
    testing::Pause(milliseconds(200));
    return sums->Check();
  });
  for (const Status& result : results) CHECK(result == absl::OkStatus());
}

TEST_CASE("all ranks sum on their hosts where one of them has no device or no NCCL") {
  for (const bool lacks_device : {true, false}) {
    std::vector<std::string> reasons(3);
    std::vector<int> connected(3);
    Group group(3);
    const auto results = RunRanks(3, [&](std::unique_ptr<Collective>& collective) -> Status {
      const uint32_t rank = collective->rank();
      const bool lacks = rank == 1;
      const PlacedNetwork network(lacks && lacks_device ? std::nullopt : std::optional<int>(0));
      StatusOr<NcclLibrary*> library = group.nccl[rank].get();
      if (lacks && !lacks_device) library = absl::NotFoundError("no NCCL");
      SIMURGH_ASSIGN_OR_RETURN(
          const auto sums, ConnectDevices(network, *collective, library, kLong, &reasons[rank]));
      connected[rank] = sums != nullptr ? 1 : 0;
      return absl::OkStatus();
    });
    for (uint32_t rank = 0; rank < 3; ++rank) {
      CHECK(results[rank].ok());
      CHECK(connected[rank] == 0);
      CHECK(reasons[rank] == (lacks_device ? "rank 1 computes on the CPU" : "rank 1 has no NCCL"));
    }
  }
}

TEST_CASE("a rank that dies in the middle of a sum is named, and the group is aborted") {
  Group group(3);
  const auto results =
      RunRanks(3, [&](std::unique_ptr<Collective>& collective, RankServer& server) -> Status {
        SIMURGH_ASSIGN_OR_RETURN(const auto sums, Connect(group, *collective, kLong));
        std::vector<std::byte> all(3);  // All have connected.
        const Status connected = collective->Gather(Channel::kStep, std::vector<std::byte>(1), all);
        if (collective->rank() != 1) return WaitForFailure(*sums);
        SIMURGH_RETURN_IF_ERROR(connected);
        server.Cut();
        return absl::OkStatus();
      });
  for (const uint32_t rank : {0, 2}) {
    CAPTURE(results[rank].message());
    CHECK(results[rank].code() == absl::StatusCode::kUnavailable);
    CHECK(std::string(results[rank].message()).find("rank 1 of 3") != std::string::npos);
    CHECK(group.nccl[rank]->aborts_ == 1);
    CHECK(group.nccl[rank]->frees_ == 0);
  }
}

Status TrainStep(DenseNetwork& network) {
  constexpr size_t kRows = 8;
  Random random(1);
  const TestBatch batch(kRows, 2, kTestFeatures * kTestDim, random);
  std::vector<float> gradient(batch.embedding_values.size());
  std::vector<float> probabilities(kRows);
  const auto result = ComputeGradients(network, batch.dense(), batch.embeddings(), batch.labels,
                                       {gradient.data(), kRows, batch.embedding_width},
                                       probabilities, {.global_samples = 2 * kRows});
  SIMURGH_RETURN_IF_ERROR(result.status());
  return network.ApplyGradients(0.1F);
}

TEST_CASE("a network whose sums fail aborts them") {
  Group group(2);
  std::promise<void> first_step;  // Of rank 0; rank 1 may have ended its own earlier.
  const auto body = [&](std::unique_ptr<Collective>& collective, RankServer& server) -> Status {
    const uint32_t rank = collective->rank();
    DenseNetworkOptions options;
    options.inputs = TestInputs(2);
    SIMURGH_ASSIGN_OR_RETURN(const auto network,
                             CreateHostNetwork(Chain({Linear(4), Linear(1)}), options, {}));
    SIMURGH_ASSIGN_OR_RETURN(auto sums, Connect(group, *collective, kLong));
    SIMURGH_RETURN_IF_ERROR(network->JoinRanks({.sums = sums.get(), .allreduce = {}}));
    SIMURGH_RETURN_IF_ERROR(TrainStep(*network));
    if (rank == 0) {
      first_step.set_value();
      const Status failed = TrainStep(*network);
      network->LeaveRanks();
      return failed;
    }
    first_step.get_future().wait_for(kLong);
    network->LeaveRanks();
    server.Cut();
    sums.reset();          // The other has noticed.
    group.board.GiveUp();  // The sum that the other is in fails.
    return absl::OkStatus();
  };
  const auto results = RunRanks(2, body);
  CAPTURE(results[0].message(), results[1].message());
  CHECK(std::string(results[0].message()).find("rank 1 of 2") != std::string::npos);
  CHECK(results[1].ok());
  CHECK(group.nccl[0]->aborts_ == 1);
}

TEST_CASE("sums that a network gives up are aborted and not freed, and name its reason") {
  Group group(2);
  const auto results = RunRanks(2, [&](std::unique_ptr<Collective>& collective) -> Status {
    SIMURGH_ASSIGN_OR_RETURN(const auto sums, Connect(group, *collective, kLong));
    std::vector<std::byte> all(2);  // All have connected.
    const Status connected = collective->Gather(Channel::kStep, std::vector<std::byte>(1), all);
    if (collective->rank() != 0) return WaitForFailure(*sums);
    SIMURGH_RETURN_IF_ERROR(connected);
    sums->GiveUp(absl::InternalError("CUDA: an illegal memory access"));
    std::vector<float> values(1);
    const Status later = sums->Sum(std::span(values), nullptr);
    collective->Abort(later);
    return later;
  });
  CHECK(results[0].message() == "CUDA: an illegal memory access");
  CHECK(std::string(results[1].message()).find("illegal memory access") != std::string::npos);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    CHECK(group.nccl[rank]->aborts_ == 1);
    CHECK(group.nccl[rank]->frees_ == 0);
  }
}

TEST_CASE("the end of a run waits for other ranks' devices at most the timeout") {
  Group group(2);
  group.nccl[0]->hangs_at_end_ = true;
  const auto results = RunRanks(2, [&](std::unique_ptr<Collective>& collective) -> Status {
    const milliseconds timeout = collective->rank() == 0 ? milliseconds(100) : kLong;
    return Connect(group, *collective, timeout).status();
  });
  for (const Status& result : results) CHECK(result.ok());
  CHECK(group.nccl[0]->aborts_ == 1);
  CHECK(group.nccl[0]->frees_ == 0);
  CHECK(group.nccl[1]->frees_ == 1);
}

TEST_CASE("a rank that misses a step is named within the deadline") {
  Group group(3);
  const milliseconds timeout{300};
  const auto results = RunRanks(3, [&](std::unique_ptr<Collective>& collective) -> Status {
    SIMURGH_ASSIGN_OR_RETURN(const auto sums, Connect(group, *collective, timeout));
    if (collective->rank() != 2) return WaitForFailure(*sums);
    // It lives, and does something else, until the others give up.
    std::vector<std::byte> all(3);
    return collective->Gather(Channel::kLoading, std::span(all).first(1), all);
  });
  for (const uint32_t rank : {0, 1}) {
    CAPTURE(results[rank].message());
    CHECK(std::string(results[rank].message())
              .find("rank 2 of 3 (nn_worker.instances.2) has not reached step 1") !=
          std::string::npos);
    CHECK(group.nccl[rank]->aborts_ == 1);
  }
  CHECK_FALSE(results[2].ok());
}

TEST_CASE("sums that hang with all ranks present end at the deadline") {
  Group group(2);
  const auto results = RunRanks(2, [&](std::unique_ptr<Collective>& collective) -> Status {
    SIMURGH_ASSIGN_OR_RETURN(const auto sums, Connect(group, *collective, milliseconds(200)));
    return WaitForFailure(*sums);
  });
  for (uint32_t rank = 0; rank < 2; ++rank) {
    CAPTURE(results[rank].message());
    CHECK(std::string(results[rank].message()).find("have not completed for 200 ms") !=
          std::string::npos);
  }
}

TEST_CASE("an error that NCCL finds on a stream ends the run of all ranks with its words") {
  Group group(2);
  const auto results = RunRanks(2, [&](std::unique_ptr<Collective>& collective) -> Status {
    SIMURGH_ASSIGN_OR_RETURN(const auto sums, Connect(group, *collective, kLong));
    if (collective->rank() == 0) {
      group.nccl[0]->error_ = "remote process exited or there was a network error";
    }
    const Status failed = WaitForFailure(*sums);
    // It is the last word.
    std::vector<float> values(1);
    if (sums->Sum(std::span(values), nullptr).message() != failed.message()) {
      return absl::InternalError("another status");
    }
    return failed;
  });
  for (uint32_t rank = 0; rank < 2; ++rank) {
    CAPTURE(rank, results[rank].message());
    CHECK(std::string(results[rank].message()).find("network error") != std::string::npos);
    CHECK(group.nccl[rank]->aborts_ == 1);
  }
}

TEST_CASE("devices that do not connect are given up, and a dead rank is named") {
  Group group(2);
  group.nccl[0]->stuck_ = true;
  SECTION("at the deadline") {
    const auto results = RunRanks(2, [&](std::unique_ptr<Collective>& collective) -> Status {
      // The other rank's monitor must not be first.
      const milliseconds timeout = collective->rank() == 0 ? milliseconds(200) : kLong;
      SIMURGH_ASSIGN_OR_RETURN(const auto sums, Connect(group, *collective, timeout));
      return WaitForFailure(*sums);
    });
    CAPTURE(results[0].message());
    CHECK(results[0].code() == absl::StatusCode::kDeadlineExceeded);
    CHECK(group.nccl[0]->aborts_ == 1);
    CHECK_FALSE(results[1].ok());
  }
  SECTION("when the other has gone") {
    const auto results =
        RunRanks(2, [&](std::unique_ptr<Collective>& collective, RankServer& server) -> Status {
          SIMURGH_ASSIGN_OR_RETURN(const auto sums, Connect(group, *collective, kLong));
          testing::Eventually([&] { return !(group.nccl[0]->device_ < 0); });
          server.Cut();
          return absl::OkStatus();
        });
    CAPTURE(results[0].message());
    CHECK(std::string(results[0].message()).find("rank 1 of 2") != std::string::npos);
    CHECK(group.nccl[0]->aborts_ == 1);
  }
}

}  // namespace
}  // namespace simurgh::testing
