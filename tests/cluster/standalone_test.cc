// A whole cluster in one process, compared with itself byte by byte.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "services/nn_worker/local_cluster.h"
#include "services/nn_worker/training_job.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {
namespace {

struct Outcome {
  uint64_t network = 0;          // Digest of weights and optimizer state.
  std::vector<uint64_t> tables;  // Digest of all rows, by table.
  double auc = 0;

  bool operator==(const Outcome&) const = default;
};

std::string Instances(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += "{address: \"127.0.0.1:" + std::to_string(1 + i) + "\"},";
  return "[" + list + "]";
}

Outcome Train(int servers, std::vector<std::string> overrides) {
  overrides.push_back("embedding_ps.instances=" + Instances(servers));
  const StatusOr<ClusterConfig> config = LoadClusterConfig("config/adult-persia.yaml", overrides);
  CAPTURE(config.status().ToString());
  REQUIRE(config.ok());
  MetricRegistry registry;
  const LearningRates rates(config->tables);
  auto cluster = LocalCluster::Create(*config, registry, rates);
  REQUIRE(cluster.ok());
  auto job = TrainingJob::Create(*config, registry);
  REQUIRE(job.ok());
  const StatusOr<TrainResult> result = (*job)->Run(**cluster, /*run=*/1, {});
  CAPTURE(result.status().ToString());
  REQUIRE(result.ok());

  Outcome outcome{.network = (*job)->NetworkDigest(),
                  .tables = std::vector<uint64_t>(config->tables.size()),
                  .auc = result->evaluation->auc};
  for (const ParameterServer* server : (*cluster)->servers()) {
    for (uint32_t p = 0; p < server->partition_count(); ++p) {
      for (size_t t = 0; t < outcome.tables.size(); ++t) {
        outcome.tables[t] += server->partition(p).table(t).ContentDigest();
      }
    }
  }
  return outcome;
}

std::vector<std::string> Reproducible(const std::string& staleness) {
  return {"training.reproducible=true", "training.staleness=" + staleness,
          "training.max_steps=120"};
}

TEST_CASE("Weights and rows agree to the last byte with 1, 2 and 3 servers") {
  const std::string staleness = GENERATE("1", "4");
  CAPTURE(staleness);
  const Outcome first = Train(2, Reproducible(staleness));
  CHECK(first == Train(2, Reproducible(staleness)));
  CHECK(first == Train(1, Reproducible(staleness)));
  CHECK(first == Train(3, Reproducible(staleness)));
}

TEST_CASE("Staleness changes the result: the comparison can fail") {
  CHECK_FALSE(Train(1, Reproducible("1")) == Train(1, Reproducible("4")));
}

TEST_CASE("Evaluation on the way leaves no trace in weights, rows or optimizer state") {
  const std::string staleness = GENERATE("1", "4");
  CAPTURE(staleness);
  std::vector<std::string> with_evaluation = Reproducible(staleness);
  with_evaluation.emplace_back("training.evaluate_every_steps=50");
  CHECK(Train(2, with_evaluation) == Train(2, Reproducible(staleness)));
}

TEST_CASE("Free running trains too") {
  const Outcome outcome = Train(2, {"training.staleness=10"});
  CHECK(outcome.auc > 0.88);
}

}  // namespace
}  // namespace simurgh
