// Two towers of several ranks of sync beside one rank with the same global batches: trainers of one
// process, a thread each, on one cluster.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/random.h"
#include "config/cluster_config.h"
#include "services/nn_worker/local_cluster.h"
#include "services/nn_worker/training_job.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/collective/rank_threads.h"

namespace simurgh::testing {
namespace {

constexpr uint32_t kSamples = 64;  // Per step.
constexpr uint32_t kItems = 40;

// Clicks of a few users, and a file of the items.
struct Data {
  explicit Data(uint32_t rows) {
    Random random(61);
    std::ofstream clicks(train);
    clicks << "user,age,item,price,click\n";
    for (uint32_t i = 0; i < rows; ++i) {
      const uint64_t item = random.Below(1 + random.Below(kItems));
      clicks << random.Below(30) << ',' << random.Below(5) << ',' << item << ','
             << 0.1 * double(item) << ',' << random.Below(2) << '\n';
    }
    std::ofstream file(items);
    file << "item,price,title\n";
    for (uint32_t i = 0; i < kItems; ++i) file << i << ',' << 0.1 * i << ",none\n";
  }

  ClusterConfig ConfigOf(uint32_t ranks, const std::vector<std::string>& more) const {
    std::string instances;
    for (uint32_t rank = 1; rank <= ranks; ++rank) {
      absl::StrAppend(&instances, "{address: 'a:", rank, "'},");
    }
    const std::string path = folder.Path("two-tower.yaml");
    std::ofstream(path) << R"(
cluster: {name: two-tower}
tables:
  - {names: [user, age, item, price], dim: 8, optimizer: {kind: sgd, learning_rate: 0.5}}
data:
  format: csv
  train: []
  csv: {header: true}
  columns:
    - {name: user, kind: id}
    - {name: age, kind: id}
    - {name: item, kind: id}
    - {name: price, kind: id}
    - {name: click, kind: label}
model:
  two_tower: {user: [user, age], item: [item, price], layers: [{linear: 16}, relu], dim: 8}
training:
  mode: sync
  epochs: 1
  dense_optimizer: {kind: sgd, learning_rate: 0.05}
)";
    std::vector<std::string> overrides = {absl::StrCat("data.train=[", train, "]"),
                                          absl::StrCat("training.batch_size=", kSamples / ranks),
                                          absl::StrCat("nn_worker.instances=[", instances, "]")};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const StatusOr<ClusterConfig> config = LoadClusterConfig(path, overrides);
    CAPTURE(config.status().ToString());
    REQUIRE(config.ok());
    return *config;
  }

  TemporaryFolder folder;
  const std::string train = folder.Path("train.csv");
  const std::string items = folder.Path("items.csv");
};

// Weights, then the other values of each rank's network.
struct Networks {
  std::vector<float> weights;
  std::vector<std::vector<float>> states;
};

Networks Train(const Data& data, uint32_t ranks, const std::vector<std::string>& more = {}) {
  const ClusterConfig config = data.ConfigOf(ranks, more);
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
  Networks found;
  for (const auto& job : jobs) {
    const std::span<const float> state = job->network().state();
    found.states.emplace_back(state.begin(), state.end());
  }
  const std::span<const float> weights = jobs[0]->weights();
  found.weights.assign(weights.begin(), weights.end());
  return found;
}

float LargestDifference(const std::vector<float>& left, const std::vector<float>& right) {
  REQUIRE(left.size() == right.size());
  float largest = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(left[i] - right[i]));
  }
  return largest;
}

TEST_CASE("Ranks of two towers end with one rank's weights, but for rounding") {
  // Rows of the last step: full, of unequal batches, and of one rank alone.
  const uint32_t last = GENERATE(64U, 39U, 5U);
  const Data data(20 * kSamples + last);
  CAPTURE(last);
  const Networks one = Train(data, 1);
  const Networks two = Train(data, 2);
  CHECK(LargestDifference(two.weights, one.weights) < 1e-5F);
  // The estimates of the items' frequencies are equal to the bit.
  CHECK(two.states[0] == one.states[0]);
  CHECK(two.states[1] == one.states[0]);
  const Networks other = Train(data, 2, {"model.two_tower.correction=none"});
  CHECK(LargestDifference(other.weights, one.weights) > 1e-3F);
  CHECK(other.states[0].empty());
}

TEST_CASE("Ranks draw the same uniform negatives as one rank") {
  const uint32_t last = GENERATE(64U, 5U);
  const Data data(20 * kSamples + last);
  CAPTURE(last);
  const std::vector<std::string> mixed = {
      "model.two_tower.uniform_negatives=25",
      absl::StrCat("data.items={files: [", data.items, "], id: item}")};
  const Networks one = Train(data, 1, mixed);
  const Networks two = Train(data, 2, mixed);
  CHECK(LargestDifference(two.weights, one.weights) < 1e-5F);
  CHECK(two.states[0] == one.states[0]);
  const Networks other = Train(data, 1);
  CHECK(LargestDifference(other.weights, one.weights) > 1e-3F);
  CHECK(other.states[0] == one.states[0]);  // They are no occurrences.
}

TEST_CASE("Uniform negatives need a file that has each item once") {
  const Data data(kSamples);
  const auto error = [&](const std::string& text) {
    std::ofstream(data.items) << text;
    const ClusterConfig config =
        data.ConfigOf(1, {"model.two_tower.uniform_negatives=4",
                          absl::StrCat("data.items={files: [", data.items, "], id: item}")});
    MetricRegistry registry;
    const LearningRates rates(config.tables);
    auto cluster = LocalCluster::Create(config, registry, rates);
    REQUIRE(cluster.ok());
    auto job = TrainingJob::Create(config, registry, 0);
    REQUIRE(job.ok());
    const auto alone = NewLocalCollective();
    return std::string((*job)->Run(**cluster, nullptr, /*run=*/1, *alone, {}).status().message());
  };
  CHECK_THAT(error("item,price\n1,2\n1,3\n"), Catch::Contains("'1'"));
  CHECK_THAT(error("item,price\n"), Catch::Contains("no item"));
  CHECK_THAT(error("item,title\n1,2\n"), Catch::Contains("price"));
}

TEST_CASE("Two towers train in every mode with two ranks") {
  const char* const mode = GENERATE("hybrid", "naive_hybrid");
  CAPTURE(mode);
  const Data data(10 * kSamples + 3);
  const Networks two = Train(data, 2, {absl::StrCat("training.mode=", mode)});
  CHECK(two.states[0] == two.states[1]);
  CHECK(std::ranges::all_of(two.weights, [](float weight) { return std::isfinite(weight); }));
}

}  // namespace
}  // namespace simurgh::testing
