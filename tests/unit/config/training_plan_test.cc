#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "config/document.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

uint64_t PlanWith(const std::vector<std::string>& overrides) {
  const StatusOr<ClusterConfig> config = ParseClusterConfig(kSample, kSamplePath, overrides);
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  return TrainingPlanHash(*config);
}

}  // namespace

TEST_CASE("Everything that ranks must agree on changes the plan", "[config]") {
  const std::vector<std::vector<std::string>> changes = {
      {},
      {"model.towers.0.name=lower", "model.towers.1.input=[lower, embeddings]"},
      {"model.towers.1.input=[embeddings, bottom]"},
      {"model.towers.1.layers.0={linear: 33}"},
      {"model.towers.1.layers.2=sigmoid"},
      {"model.towers.1.layers.2=gelu"},
      {"model.towers.0.layers.1.batch_norm.momentum=0.3"},
      {"model.towers.0.layers.1.batch_norm.epsilon=1e-4"},
      {"model.loss={kind: focal}"},
      {"model.loss={kind: focal, gamma: 1}"},
      {"model.loss={positive_weight: 2}"},
      {"training.mode=naive_hybrid"},
      {"training.batch_size=65"},
      {"training.epochs=2"},
      {"training.drop_last=true"},
      {"training.keep_negatives=0.5"},
      {"training.staleness=5"},
      {"training.row_age_steps=1", "embedding_worker.row_cache_bytes=1048576"},
      {"training.reproducible=true"},
      {"training.embeddings=rows"},
      {"training.embedding_precision=bf16"},
      {"training.gradient_precision=bf16"},
      {"training.allreduce.precision=int8"},
      {"training.allreduce.bucket_bytes=65536"},
      {"training.sync_batch_norm=true"},
      {"training.evaluate_every_steps=7"},
      {"training.max_steps=1000001"},
      {"training.max_steps=1000002"},
      {"training.dense_optimizer.learning_rate=0.1"},
      {"training.dense_optimizer.learning_rate=0.10000005"},
      {"training.dense_optimizer.beta1=0.5"},
      {"training.dense_optimizer.beta2=0.5"},
      {"training.dense_optimizer.epsilon=1e-9"},
      {"training.dense_optimizer.kind=lamb"},
      {"training.dense_optimizer={kind: sgd, momentum: 0.5}"},
      {"training.dense_optimizer={kind: sgd, momentum: 0.5, nesterov: true}"},
      {"training.dense_optimizer={kind: adagrad}"},
      {"training.dense_optimizer={kind: adagrad, initial_accumulator: 0.5}"},
      {"training.dense_optimizer.weight_decay=0.5"},
      {"training.dense_optimizer.decoupled_weight_decay=0.5"},
      {"training.dense_optimizer.max_gradient_norm=0.5"},
      {"training.dense_optimizer.average_decay=0.5"},
      {"training.dense_optimizer.schedule={kind: exponential}"},
      {"training.dense_optimizer.schedule={kind: exponential, decay_factor: 0.25}"},
      {"training.dense_optimizer.schedule={kind: cosine, end_factor: 0.25}"},
      {"training.dense_optimizer.schedule={warmup_steps: 9}"},
      {"tables.0.optimizer.learning_rate=0.25"},
      {"tables.0.optimizer.schedule={kind: cosine}"},
      {"data.train=[CMakePresets.json]"},
      {"nn_worker.instances=[{address: \"a:1\"}]", "loaders.instances=[{}]"},
      {"nn_worker.instances=[{address: \"a:1\"}]", "loaders.instances=[{}, {}]"},
      {"data.test=[CMakePresets.json]"},
      {"data.bad_rows=skip"},
      {"data.csv.separator='^'"},
      {"data.csv.header=true"},
      {"data.csv.columns.0.mean=3"},
      {"data.csv.columns.0.missing=3"},
      {"data.csv.columns.5.positive=[1]"},
  };
  std::set<uint64_t> plans;
  for (const std::vector<std::string>& overrides : changes) {
    INFO((overrides.empty() ? "nothing changed" : overrides[0]));
    CHECK(plans.insert(PlanWith(overrides)).second);
  }
}

TEST_CASE("What a rank has for itself does not change the plan", "[config]") {
  const uint64_t plan = PlanWith({});
  for (const char* override_text :
       {"nn_worker.threads=2", "training.progress_interval=9s", "training.retry_deadline=9s",
        "training.loader_queue_batches=2", "data.train=[./CMakeLists.txt]",
        "embedding_worker.threads=3"}) {
    INFO(override_text);
    CHECK(PlanWith({override_text}) == plan);
  }
}

}  // namespace simurgh
