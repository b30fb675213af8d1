// Weights of several ranks of sync beside those of one rank with the same global batches: trainers
// of one process, a thread each, on one cluster.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/mutex.h"
#include "config/cluster_config.h"
#include "services/nn_worker/local_cluster.h"
#include "services/nn_worker/training_job.h"
#include "tests/unit/collective/rank_threads.h"

namespace simurgh::testing {
namespace {

constexpr uint32_t kSteps = 20;
constexpr uint32_t kSamples = 128;  // Per step.

// Weights after a run.
struct Weights {
  std::vector<float> network;
  std::vector<float> embeddings;  // For some samples of the test files.
};

ClusterConfig ConfigOf(uint32_t ranks, bool sync_batch_norm) {
  std::string instances;
  for (uint32_t rank = 1; rank <= ranks; ++rank) {
    absl::StrAppend(&instances, "{address: 'a:", rank, "'},");
  }
  const StatusOr<ClusterConfig> config = LoadClusterConfig(
      "config/adult-persia.yaml",
      {"training.mode=sync", absl::StrCat("training.max_steps=", kSteps),
       absl::StrCat("training.batch_size=", kSamples / ranks), "data.test=[]",
       absl::StrCat("training.sync_batch_norm=", sync_batch_norm ? "true" : "false"),
       absl::StrCat("nn_worker.instances=[", instances, "]")});
  CAPTURE(config.status().ToString());
  REQUIRE(config.ok());
  return *config;
}

// Waits for what a port answers.
template <typename T>
class Answered {
 public:
  auto Take() {
    return [this](StatusOr<T> answer) {
      const MutexLock lock(mutex_);
      answer_ = std::move(answer);
      changed_.NotifyAll();
    };
  }
  StatusOr<T> Await() {
    const MutexLock lock(mutex_);
    while (!answer_) changed_.Wait(mutex_);
    return *answer_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<StatusOr<T>> answer_ ABSL_GUARDED_BY(mutex_);
};

std::vector<float> EmbeddingsOf(EmbeddingPort& port, const ClusterConfig& config) {
  constexpr size_t kTestSamples = 1'000;
  auto reader = OpenBatchReader(config.data, config.features,
                                {"config/data/adult/adult.test.csv.zst"}, kTestSamples);
  REQUIRE(reader.ok());
  const auto batch = (*reader)->Next();
  REQUIRE((batch.ok() && batch->has_value()));
  Answered<BatchReference> reference;
  port.Submit((*batch)->sparse, {.mode = LookupMode::kEvaluate}, reference.Take());
  REQUIRE(reference.Await().ok());
  const auto values = std::make_shared<std::vector<float>>(kTestSamples * config.embedding_width());
  const MatrixView<float> matrix(values->data(), kTestSamples, config.embedding_width());
  Answered<PullAnswer> answer;
  port.Pull(*reference.Await(), {.mode = LookupMode::kEvaluate}, {matrix, values}, answer.Take());
  REQUIRE(answer.Await().ok());
  return *values;
}

Weights Train(uint32_t ranks, bool sync_batch_norm) {
  const ClusterConfig config = ConfigOf(ranks, sync_batch_norm);
  const LearningRates rates(config.tables);
  std::vector<MetricRegistry> registries(ranks + 1);
  auto cluster = LocalCluster::Create(config, registries[ranks], rates);
  REQUIRE(cluster.ok());
  std::vector<std::unique_ptr<TrainingJob>> jobs(ranks);
  const auto train = [&](std::unique_ptr<Collective>& collective) -> Status {
    const uint32_t rank = collective->rank();
    SIMURGH_ASSIGN_OR_RETURN(jobs[rank], TrainingJob::Create(config, registries[rank], rank));
    return jobs[rank]->Run(**cluster, nullptr, /*run=*/1, *collective, {}).status();
  };
  auto alone = NewLocalCollective();
  for (const Status& status :
       ranks == 1 ? std::vector<Status>{train(alone)} : RunRanks(ranks, train)) {
    CAPTURE(status.ToString());
    REQUIRE(status.ok());
  }
  const std::span<const float> network = jobs[0]->weights();
  return {.network = {network.begin(), network.end()},
          .embeddings = EmbeddingsOf(**cluster, config)};
}

float LargestDifference(const std::vector<float>& left, const std::vector<float>& right) {
  REQUIRE(left.size() == right.size());
  float largest = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(left[i] - right[i]));
  }
  return largest;
}

// What other ranks do differently is the order in which a step's samples are added up. Sums of n
// terms in two orders differ by n 2^-24 of the sum of the terms' absolute values at most. A
// sample's gradient, which the batch's mean is made of, is below 1 here: that of the logit is, and
// what it is multiplied with are weights of about 0.1 and values that a batch norm has scaled. A
// step takes it times a rate of 0.1: the dense network's, and that of rows, 0.01 / sqrt(0.01),
// while Adagrad has seen little. The network is as good as linear, so that a difference carries on
// as it is; twice as much leaves room for what it adds.
constexpr float kRate = 0.1F;
constexpr float kTolerance = 2 * kSteps * kRate * kSamples * 0x1p-24F;

TEST_CASE("Ranks of sync end with one rank's weights and rows, but for rounding") {
  const Weights one = Train(1, true);
  for (const uint32_t ranks : {2U, 4U}) {
    CAPTURE(ranks);
    const Weights several = Train(ranks, true);
    CHECK(LargestDifference(several.network, one.network) < kTolerance);
    CHECK(LargestDifference(several.embeddings, one.embeddings) < kTolerance);
  }
  // A batch norm of each rank's own is another network.
  const Weights other = Train(2, false);
  CHECK(LargestDifference(other.network, one.network) > 100 * kTolerance);
  CHECK(LargestDifference(other.embeddings, one.embeddings) > kTolerance);
}

}  // namespace
}  // namespace simurgh::testing
