// Histories of several columns, and transformer blocks.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "nn/model_plan.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/nn/torch_check.h"

namespace simurgh::testing {
namespace {

TEST_CASE("Histories have the gradients of PyTorch in f64") {
  // The lengths differ by sample. In the last batch no sample has a row.
  const bool has_rows = GENERATE(true, false);
  Random random(3);
  const TemporaryFolder folder;
  CheckAgainstTorch(
      Histories(), HistoryInputs(),
      SequenceBatch(
          11, random, [&](size_t row) { return has_rows ? row % (kTestPlaces + 1) : 0; },
          HistoryInputs()),
      folder.path());
}

TEST_CASE("self_attention is a TransformerEncoderLayer of PyTorch") {
  Random random(6);
  const TemporaryFolder folder;
  CheckAgainstTorch(
      Histories(), HistoryInputs(),
      SequenceBatch(
          12, random, [](size_t row) { return 1 + row % kTestPlaces; }, HistoryInputs()),
      folder.path());
  const std::string python = Python("numpy, safetensors.numpy, torch");
  CHECK(std::system(absl::StrCat(python, " tests/unit/nn/transformer_reference.py ", folder.path())
                        .c_str()) == 0);
}

TEST_CASE("Rows of several sequences lie side by side") {
  const auto plan = PlanModel(Histories(), HistoryInputs());
  REQUIRE(plan.ok());
  const TowerPlan& tower = plan->towers[2];  // targets
  CHECK(tower.layers[0].query_width == 5);
  CHECK(tower.layers[0].row_width == 6);
  REQUIRE(tower.inputs.size() == 6);
  const size_t columns[] = {0, 3, 5, 8, 10, 5 + 6 * kTestPlaces};
  for (size_t i = 0; i < 6; ++i) {
    CHECK(tower.inputs[i].column == columns[i]);
    CHECK(tower.inputs[i].places == (i == 2 || i == 3 || i == 4 ? kTestPlaces : 1));
    if (tower.inputs[i].places > 1) CHECK(tower.inputs[i].stride == 6);
  }
}

TEST_CASE("errors name the fault of sequences") {
  const auto refusal = [](std::vector<std::string> inputs, LayerConfig layer) {
    const ModelConfig model{.towers = {{"a", std::move(inputs), {layer, Linear(1)}}}};
    return std::string(CheckModel(model, HistoryInputs()).message());
  };
  const LayerConfig attention{.kind = LayerConfig::Kind::kAttention};
  const LayerConfig block{.kind = LayerConfig::Kind::kSelfAttention, .width = 2, .hidden = {4}};
  CHECK(refusal({"embeddings.item", "embeddings.seen"}, attention) ==
        "model: tower 'a' layer 1: the last inputs are not a raw feature and its mask; end the "
        "tower's input with embeddings.FEATURE and mask.FEATURE");
  CHECK(refusal({"embeddings.item", "embeddings.kinds", "mask.seen"}, attention) ==
        "model: tower 'a' layer 1: the last inputs are not a raw feature and its mask; end the "
        "tower's input with embeddings.FEATURE and mask.FEATURE");
  CHECK(
      refusal({"embeddings.kind", "embeddings.seen", "embeddings.kinds", "mask.seen"}, attention) ==
      "model: tower 'a' layer 1: the query has 2 columns, a row has 5; read a query of the rows' "
      "dim first, or of the first sequences' dims");
  CHECK(refusal({"embeddings.seen", "mask.seen"}, block) ==
        "model: tower 'a' layer 1: a row has 3 columns, no multiple of 2; choose heads that divide "
        "it");
  CHECK(
      refusal({"embeddings.kind", "embeddings.seen", "mask.seen"}, block) ==
      "model: tower 'a' layer 1: the layer reads sequences alone, and the tower has other inputs; "
      "remove the other inputs");
}

}  // namespace
}  // namespace simurgh::testing
