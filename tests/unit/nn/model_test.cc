#include <string>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"
#include "nn/model_plan.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

// The message of the expected error.
std::string Refusal(const ModelConfig& model, size_t dense_width = 2, size_t embedding_width = 4) {
  const ModelInputs inputs{.dense_width = dense_width,
                           .embedding_width = embedding_width,
                           .features = {{"a", 1}, {"b", embedding_width - 1}}};
  const Status status = PlanModel(model, inputs).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  DenseNetworkOptions options;
  options.inputs = inputs;
  CHECK(CreateCpuNetwork(model, options).status() == status);
  return std::string(status.message());
}

ModelConfig Towers(std::vector<TowerConfig> towers) { return {.towers = std::move(towers)}; }

TEST_CASE("consistent models are accepted") {
  CHECK(PlanModel(SharedInputs(), {2, 4, {}}).ok());
  CHECK(PlanModel(Chain({Linear(1)}), {1, 1, {}}).ok());
  CHECK(PlanModel(Towers({{"only", {"dense"}, {Relu(), Linear(1)}}}), {3, 0, {}}).ok());
}

TEST_CASE("errors name the fault of a model") {
  CHECK(Refusal({}) ==
        "model: has no network, since a program computes it; predict with that program, or set "
        "model: deepfm, wide_deep, dlrm or dcn_v2 to train a network of the configuration");
  CHECK(Refusal(Towers({{"", {"dense"}, {Linear(1)}}})) == "model: tower 1 has no name; add one");
  CHECK(Refusal(Towers({{"dense", {"dense"}, {Linear(1)}}})) ==
        "model: tower 'dense' is named like an input; choose another name");
  CHECK(Refusal(Towers({{"a", {"dense"}, {Linear(1)}}, {"a", {"a"}, {Linear(1)}}})) ==
        "model: two towers are named 'a'; rename one");
  CHECK(Refusal(Towers({{"a", {}, {Linear(1)}}})) ==
        "model: tower 'a' has no inputs; name `dense`, `embeddings` or an earlier tower");
  CHECK(Refusal(Towers({{"a", {"b"}, {Linear(1)}}, {"b", {"dense"}, {Linear(1)}}})) ==
        "model: tower 'a' reads 'b'; use `dense`, `embeddings` or an earlier tower");
  CHECK(Refusal(Chain({Linear(1)}), 2, 0) ==
        "model: tower 'top' reads `embeddings`, but the data has no such columns; remove the input "
        "or add features");
  CHECK(Refusal(Towers({{"a", {"dense", "dense"}, {Linear(1)}}})) ==
        "model: tower 'a' reads 'dense' twice; name it once");
  CHECK(Refusal(Towers({{"a", {"dense"}, {}}})) ==
        "model: tower 'a' has no layers; add at least one");
  CHECK(Refusal(Chain({Linear(2)})) ==
        "model: tower 'top' has output width 2; end the last tower with linear or sum of width 1, "
        "one output per label");
  CHECK(Refusal(Chain({Linear(1), Sigmoid()})) ==
        "model: tower 'top' layer 2 is neither linear nor sum; end the last tower with one of "
        "width 1 (the loss applies sigmoid or exp)");
  CHECK(Refusal(Towers({{"a", {"dense"}, {Linear(3)}}, {"b", {"dense"}, {Linear(1)}}})) ==
        "model: tower 'a' has no reader; add it to the inputs of a later tower or remove it");
  CHECK(Refusal(Towers({{"a", {"embeddings.c"}, {Linear(1)}}})) ==
        "model: tower 'a' reads 'embeddings.c', but there is no such feature; correct the name");
  CHECK(Refusal(Towers({{"a", {"embeddings", "embeddings.b"}, {Linear(1)}}})) ==
        "model: tower 'a' reads 'embeddings.b' twice; name it once");
  CHECK(Refusal(Chain({Dot(4), Linear(1)})) ==
        "model: tower 'top' layer 1: 6 columns are not a multiple of 4, at least 8; read "
        "embeddings of one dim and towers of this width, and set that width");
  CHECK(Refusal(Chain({Fm(6), Linear(1)})) ==
        "model: tower 'top' layer 1: 6 columns are not a multiple of 6, at least 12; read "
        "embeddings of one dim and towers of this width, and set that width");
  CHECK(Refusal(Chain({Linear(4), Cross(), Linear(1)})) ==
        "model: tower 'top' layer 2: cross on 4 columns in a tower that reads 6; move layers of "
        "other widths after it, or to another tower");
  CHECK(Refusal(Chain({Linear(65'536), Linear(65'536), Linear(1)})) ==
        "model: has 4295557121 weights, the limit is 2147483648; make its layers narrower");
}

}  // namespace
}  // namespace simurgh::testing
