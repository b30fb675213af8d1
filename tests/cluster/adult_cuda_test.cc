// Training on a CUDA device on real data: the accuracy that it must reach over ten seeds, the CPU's
// (adult_acceptance_test.cc).

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/cuda/cuda_network.h"
#include "tests/cluster/standalone_run.h"

namespace simurgh::testing {
namespace {

constexpr int kSeeds = 10;

// There is a device, and what it needs; else training would fall back to the CPU.
void RequireDevice() {
  const ModelConfig model{
      .towers = {{.name = "top",
                  .inputs = {"dense"},
                  .layers = {{.kind = LayerConfig::Kind::kLinear, .width = 1}}}}};
  DenseNetworkOptions options;
  options.inputs.dense_width = 1;
  const auto created = cuda::CreateCudaNetwork(model, options);
  INFO(created.status().message());
  REQUIRE(created.ok());
}

std::vector<double> TestAucs(const std::vector<std::string>& overrides) {
  std::vector<double> aucs;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    std::vector<std::string> own = overrides;
    own.insert(own.end(), {"nn_worker.device=cuda", "cluster.seed=" + std::to_string(seed)});
    aucs.push_back(TrainStandalone("config/adult-persia.yaml", 2, own).auc);
  }
  return aucs;
}

void CheckBand(const char* what, const std::vector<double>& aucs) {
  const double mean =
      std::accumulate(aucs.begin(), aucs.end(), 0.0) / static_cast<double>(aucs.size());
  std::printf("%s: mean %.5f min %.5f max %.5f\n", what, mean, std::ranges::min(aucs),
              std::ranges::max(aucs));
  CHECK(mean >= 0.8935);
  CHECK(mean <= 0.8960);
  CHECK(std::ranges::min(aucs) >= 0.891);
}

TEST_CASE("PERSIA's model on Adult, on a device: the CPU's band of test AUC") {
  RequireDevice();
  CheckBand("f32", TestAucs({}));
  CheckBand("bf16, embeddings in bf16 and gradients in int8",
            TestAucs({"nn_worker.precision=bf16", "training.embedding_precision=bf16",
                      "training.gradient_precision=int8"}));
  CheckBand("rows that the device pools",
            TestAucs({"training.embeddings=rows", "training.staleness=4"}));
}

TEST_CASE("a short run with rows that the device pools") {
  RequireDevice();
  const Outcome outcome = TrainStandalone("config/adult-persia.yaml", 2,
                                          {"nn_worker.device=cuda", "training.embeddings=rows",
                                           "training.staleness=4", "training.max_steps=200"});
  CHECK(outcome.steps == 200);
}

}  // namespace
}  // namespace simurgh::testing
