#include "tests/unit/nn/test_models.h"

#include <algorithm>

#include "base/check.h"
#include "nn/calibration.h"

namespace simurgh::testing {
namespace {

void CopyRows(MatrixView<const float> from, MatrixView<float> to) {
  for (size_t row = 0; row < from.rows(); ++row) {
    std::ranges::copy(from.row(row), to.row(row).begin());
  }
}

}  // namespace

LayerConfig Linear(uint32_t width) { return {.kind = LayerConfig::Kind::kLinear, .width = width}; }

LayerConfig BatchNorm(float momentum, float epsilon) {
  return {.kind = LayerConfig::Kind::kBatchNorm, .momentum = momentum, .epsilon = epsilon};
}

LayerConfig Relu() { return {.kind = LayerConfig::Kind::kRelu}; }

LayerConfig Gelu() { return {.kind = LayerConfig::Kind::kGelu}; }
LayerConfig Sigmoid() { return {.kind = LayerConfig::Kind::kSigmoid}; }

LayerConfig Dropout(float rate) { return {.kind = LayerConfig::Kind::kDropout, .rate = rate}; }

LayerConfig Dot(uint32_t width) { return {.kind = LayerConfig::Kind::kDot, .width = width}; }

LayerConfig Fm(uint32_t width) { return {.kind = LayerConfig::Kind::kFm, .width = width}; }

LayerConfig Cross(uint32_t rank) { return {.kind = LayerConfig::Kind::kCross, .rank = rank}; }

LayerConfig Sum(uint32_t width) { return {.kind = LayerConfig::Kind::kSum, .width = width}; }

LayerConfig Dice(float momentum, float epsilon) {
  return {.kind = LayerConfig::Kind::kDice, .momentum = momentum, .epsilon = epsilon};
}

LayerConfig LayerNorm(float epsilon) {
  return {.kind = LayerConfig::Kind::kLayerNorm, .epsilon = epsilon};
}

LayerConfig Plain(LayerConfig::Kind kind, uint32_t width) { return {.kind = kind, .width = width}; }

std::string TestFeatureName(size_t index) { return std::string(1, static_cast<char>('a' + index)); }

ModelInputs TestInputs(size_t dense_width) {
  ModelInputs inputs{.dense_width = dense_width, .embedding_width = kTestFeatures * kTestDim};
  for (size_t i = 0; i < kTestFeatures; ++i) {
    inputs.features.push_back({TestFeatureName(i), kTestDim});
  }
  return inputs;
}

ModelConfig Chain(std::vector<LayerConfig> layers) {
  return {.towers = {{.name = "top", .inputs = {"dense", "embeddings"}, .layers = layers}}};
}

ModelConfig SharedInputs() {
  return {.towers = {
              {.name = "numbers", .inputs = {"dense"}, .layers = {Linear(3), BatchNorm(), Relu()}},
              {.name = "ids", .inputs = {"embeddings"}, .layers = {Sigmoid(), Linear(4)}},
              {.name = "cross",
               .inputs = {"ids", "embeddings", "numbers"},
               .layers = {BatchNorm(0.3F, 1e-3F), Linear(5), Relu()}},
              {.name = "top",
               .inputs = {"cross", "dense", "embeddings", "ids"},
               .layers = {Linear(4), Sigmoid(), Linear(1)}},
          }};
}

ModelConfig TwoTasks() {
  return {
      .towers = {{.name = "shared",
                  .inputs = {"dense", "embeddings"},
                  .layers = {Linear(5), Sigmoid()}},
                 {.name = "click", .inputs = {"shared"}, .layers = {Linear(3), Relu(), Linear(1)}},
                 {.name = "buy", .inputs = {"shared", "dense"}, .layers = {Linear(1)}},
                 {.name = "logits", .inputs = {"click", "buy"}, .layers = {Sum(2)}}},
      .tasks = {{.label = "click", .weight = 0.3F},
                {.label = "buy",
                 .weight = 2.0F,
                 .loss = {.kind = LossConfig::Kind::kFocal, .positive_weight = 1.5F}}}};
}

ModelConfig RandomModel(Random& random) {
  ModelConfig model;
  std::vector<std::string> unread;
  const size_t towers = 1 + random.Below(4);
  for (size_t t = 0; t < towers; ++t) {
    TowerConfig tower;
    tower.name = "tower" + std::to_string(t);
    std::vector<std::string> sources{"dense", "embeddings"};
    for (const TowerConfig& earlier : model.towers) sources.push_back(earlier.name);
    for (const std::string& source : sources) {
      const bool must = t + 1 == towers && std::ranges::find(unread, source) != unread.end();
      if (must || random.Below(2) == 0) tower.inputs.push_back(source);
    }
    if (tower.inputs.empty()) tower.inputs.push_back(sources[random.Below(sources.size())]);
    for (const std::string& name : tower.inputs) std::erase(unread, name);
    const size_t layers = 1 + random.Below(4);
    for (size_t i = 0; i < layers; ++i) {
      const LayerConfig kinds[] = {Linear(static_cast<uint32_t>(1 + random.Below(6))),
                                   BatchNorm(0.2F, 1e-3F), Relu(), Sigmoid(), Gelu()};
      LayerConfig layer = kinds[random.Below(5)];
      // Batch norm twice in a row amplifies rounding on columns that are constant.
      const bool repeated = layer.kind == LayerConfig::Kind::kBatchNorm && !tower.layers.empty() &&
                            tower.layers.back().kind == layer.kind;
      tower.layers.push_back(repeated ? kinds[0] : layer);
    }
    if (t + 1 == towers) tower.layers.push_back(Linear(1));
    unread.push_back(tower.name);
    model.towers.push_back(tower);
  }
  return model;
}

ModelConfig Sequences() {
  using Kind = LayerConfig::Kind;
  const std::vector<std::string> seen = {"embeddings.seen", "mask.seen"};
  const std::vector<std::string> pooled = {"interest", "second", "last", "mean", "embeddings.item"};
  const auto expert = [&](const char* name) {
    return TowerConfig{name, pooled, {Linear(3), Sigmoid()}};
  };
  const auto gate = [&](const char* name) {
    return TowerConfig{name, pooled, {Linear(2), {.kind = Kind::kSoftmax}}};
  };
  const auto mixture = [&](const char* name, const char* gate_name) {
    return TowerConfig{name,
                       {gate_name, "mmoe.expert_1", "mmoe.expert_2"},
                       {{.kind = Kind::kMix, .width = 2}, Linear(1)}};
  };
  return {.towers = {{"interest",
                      {"embeddings.item", "embeddings.seen", "mask.seen"},
                      {{.kind = Kind::kAttention, .hidden = {5, 4}}}},
                     {"mean", seen, {{.kind = Kind::kMean}}},
                     {"query", {"dense"}, {Linear(3)}},
                     {"second",
                      {"query", "embeddings.seen", "mask.seen"},
                      {{.kind = Kind::kAttention}, Linear(2), Relu()}},
                     {"last", seen, {{.kind = Kind::kLast}}},
                     expert("mmoe.expert_1"),
                     expert("mmoe.expert_2"),
                     gate("mmoe.gate_a"),
                     gate("mmoe.gate_b"),
                     mixture("a", "mmoe.gate_a"),
                     mixture("b", "mmoe.gate_b"),
                     {"top", {"a", "b"}, {Sum(2)}}},
          .tasks = {{.weight = 1.0F}, {.weight = 0.5F}}};
}

ModelConfig Fusions() {
  using Kind = LayerConfig::Kind;
  const std::vector<std::string> both = {"dense", "embeddings"};
  return {
      .towers =
          {{"left", {"embeddings"}, {Dice(0.2F, 1e-3F), Linear(6), Plain(Kind::kPrelu)}},
           {"right", both, {LayerNorm(1e-3F), Linear(6), Plain(Kind::kSilu), Plain(Kind::kL2Norm)}},
           {"gate", both, {Linear(6), Plain(Kind::kGate)}},
           {"gated", {"gate", "left", "right"}, {Plain(Kind::kProduct, 3), Plain(Kind::kTanh)}},
           {"fusion", {"left", "right"}, {Plain(Kind::kBilinear, 3)}},
           {"click",
            {"fusion", "gated"},
            {Linear(4), Dice(0.2F, 1e-3F), LayerNorm(1e-3F), Linear(1)}},
           {"order", {"gated"}, {Linear(1)}},
           {"click_and_order", {"click", "order"}, {Plain(Kind::kJoint, 2)}},
           {"top", {"click", "click_and_order"}, {Sum(2)}}},
      .tasks = {{.weight = 1.0F}, {.weight = 0.5F}}};
}

ModelInputs SequenceInputs() {
  return {
      .dense_width = 2 + kTestPlaces,
      .embedding_width = kTestDim * (1 + kTestPlaces),
      .features = {{"item", kTestDim}, {"seen", kTestDim * kTestPlaces, kTestPlaces, kTestPlaces}}};
}

ModelConfig Histories() {
  using Kind = LayerConfig::Kind;
  const auto attention = [](std::vector<uint32_t> hidden, Kind activation, bool normalises) {
    return LayerConfig{.kind = Kind::kAttention,
                       .hidden = std::move(hidden),
                       .activation = activation,
                       .normalises = normalises};
  };
  const auto block = [](uint32_t heads, uint32_t hidden, bool positions, bool causal) {
    return LayerConfig{.kind = Kind::kSelfAttention,
                       .width = heads,
                       .hidden = {hidden},
                       .positions = positions,
                       .causal = causal};
  };
  const std::vector<std::string> all = {"block", "second", "targets", "third", "last", "mean"};
  return {
      .towers =
          {{"block",
            {"embeddings.seen", "embeddings.gaps", "mask.seen"},
            {block(2, 5, true, true)}},
           {"next", {"block", "mask.seen"}, {block(1, 3, false, false)}},
           {"targets",
            {"embeddings.item", "embeddings.kind", "embeddings.seen", "embeddings.kinds",
             "embeddings.gaps", "mask.seen"},
            {attention({4, 2}, Kind::kDice, false)}},
           {"query", {"dense"}, {Linear(4), Sigmoid()}},
           {"second", {"query", "next", "mask.seen"}, {attention({4, 3}, Kind::kSigmoid, true)}},
           {"third",
            {"embeddings.item", "embeddings.seen", "block", "mask.seen"},
            {attention({3}, Kind::kPrelu, true), Linear(2)}},
           {"last", {"next", "mask.seen"}, {{.kind = Kind::kLast}}},
           {"mean", {"embeddings.seen", "embeddings.kinds", "mask.seen"}, {{.kind = Kind::kMean}}},
           {"top", all, {Linear(2)}}},
      .tasks = {{.weight = 1.0F}, {.weight = 0.5F}}};
}

ModelInputs HistoryInputs() {
  ModelInputs inputs = SequenceInputs();
  const auto add = [&](const char* name, size_t dim, size_t places) {
    const size_t width = dim * std::max<size_t>(places, 1);
    inputs.features.push_back({name, width, 0, places});
    inputs.embedding_width += width;
  };
  add("kind", 2, 0);
  add("kinds", 2, kTestPlaces);
  add("gaps", 1, kTestPlaces);
  return inputs;
}

TestBatch SequenceBatch(size_t rows, Random& random, const std::function<size_t(size_t)>& length_of,
                        const ModelInputs& inputs) {
  TestBatch batch(rows, inputs.dense_width, inputs.embedding_width, random, 2);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t l = 0; l < kTestPlaces; ++l) {
      batch.dense_values[row * inputs.dense_width + 2 + l] = l < length_of(row) ? 1.0F : 0.0F;
    }
  }
  return batch;
}

TestBatch::TestBatch(size_t row_count, size_t dense_columns, size_t embedding_columns,
                     Random& random, size_t tasks)
    : rows(row_count),
      dense_width(dense_columns),
      embedding_width(embedding_columns),
      dense_values(NormalValues(rows * dense_width, random)),
      embedding_values(NormalValues(rows * embedding_width, random)),
      labels(rows * tasks) {
  for (float& label : labels) label = static_cast<float>(random.Below(2));
}

std::vector<float> NormalValues(size_t count, Random& random) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Normal());
  return values;
}

StatusOr<BatchResult> ComputeGradients(DenseNetwork& network, MatrixView<const float> dense,
                                       MatrixView<const float> embeddings,
                                       std::span<const float> labels,
                                       MatrixView<float> embedding_gradient,
                                       std::span<float> probabilities, const RankStep& step) {
  const auto block = network.blocks().Lease(embeddings.rows(), true);
  SIMURGH_CHECK_EQ(block->embeddings.columns(), embeddings.columns());
  CopyRows(embeddings, block->embeddings);
  auto result = network.ForwardBackward(*block, dense, labels, probabilities, step);
  SIMURGH_RETURN_IF_ERROR(result.status());
  SIMURGH_RETURN_IF_ERROR(network.AwaitGradients(*block));
  CopyRows(block->gradients, embedding_gradient);
  return result;
}

Status OutputsFrom(DenseNetwork& network, MatrixView<const float> dense,
                   MatrixView<const float> embeddings, std::span<float> outputs) {
  const auto block = network.blocks().Lease(embeddings.rows(), false);
  CopyRows(embeddings, block->embeddings);
  return network.Predict(*block, dense, outputs);
}

Status PredictFrom(DenseNetwork& network, MatrixView<const float> dense,
                   MatrixView<const float> embeddings, std::span<float> predictions,
                   const std::vector<TaskConfig>& tasks) {
  const Status status = OutputsFrom(network, dense, embeddings, predictions);
  ToPredictions(tasks, /*kept_negatives=*/1, {}, predictions);
  return status;
}

}  // namespace simurgh::testing
