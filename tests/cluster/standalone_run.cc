#include "tests/cluster/standalone_run.h"

#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "services/nn_worker/local_cluster.h"
#include "services/nn_worker/training_job.h"

namespace simurgh::testing {
namespace {

std::string Instances(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += "{address: \"127.0.0.1:" + std::to_string(1 + i) + "\"},";
  return "[" + list + "]";
}

}  // namespace

Outcome TrainStandalone(const std::string& path, int servers, std::vector<std::string> overrides,
                        MetricRegistry* registry_or_null) {
  overrides.push_back("embedding_ps.instances=" + Instances(servers));
  const StatusOr<ClusterConfig> config = LoadClusterConfig(path, overrides);
  CAPTURE(config.status().ToString());
  REQUIRE(config.ok());
  MetricRegistry own;
  MetricRegistry& registry = registry_or_null == nullptr ? own : *registry_or_null;
  const LearningRates rates(config->tables);
  auto cluster = LocalCluster::Create(*config, registry, rates);
  REQUIRE(cluster.ok());
  auto job = TrainingJob::Create(*config, registry);
  REQUIRE(job.ok());
  const StatusOr<TrainResult> result =
      (*job)->Run(**cluster, (*cluster)->dense(), /*run=*/1, *NewLocalCollective(), {});
  CAPTURE(result.status().ToString());
  REQUIRE(result.ok());

  Outcome outcome{.network = (*job)->NetworkDigest(),
                  .tables = std::vector<uint64_t>(config->tables.size()),
                  .steps = result->steps,
                  .auc = result->evaluation->auc,
                  .task_aucs = {}};
  for (const EvaluationResult& task : result->evaluation->tasks) {
    outcome.task_aucs.push_back(task.auc);
  }
  for (const ParameterServer* server : (*cluster)->servers()) {
    for (uint32_t p = 0; p < server->shape().partitions; ++p) {
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

}  // namespace simurgh::testing
