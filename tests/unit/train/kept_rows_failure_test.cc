// A network that keeps rows while its cluster fails, beside one that is given the embeddings which
// those rows have to make: a row that was said to be kept, and is not there, would show.

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"
#include "simurgh/train/trainer.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/train/forwarding_network.h"
#include "tests/unit/train/row_port.h"

namespace simurgh::testing {
namespace {

constexpr uint64_t kSteps = 40;
constexpr size_t kSamples = 6;
constexpr uint32_t kWindow = 3;
constexpr uint32_t kRowAge = 2;
constexpr uint64_t kBadInput = 9;  // The step whose batch holds NaN,
constexpr uint64_t kBadRows = 21;  // and the one whose rows do.

// Two features of one table, with lists of their own, and one of another.
const std::vector<uint32_t> kTables = {0, 1, 0};
const std::vector<FeatureRows> kFeatures = {
    {.dim = 3}, {.dim = 2, .rule = {.kind = Pooling::kMean}}, {.dim = 3}};
constexpr size_t kWidth = 8;

using Bytes = std::vector<std::byte>;
using RowKey = std::pair<uint32_t, uint64_t>;  // Table, id.

class Batches : public BatchReader {
 public:
  StatusOr<std::optional<Batch>> Next() override {
    if (given_ == kSteps) return std::nullopt;
    BatchBuilder builder(kFeatures.size(), 1);
    for (size_t sample = 0; sample < kSamples; ++sample) {
      for (size_t f = 0; f < kFeatures.size(); ++f) {
        for (uint64_t ids = random_.Below(4); ids > 0; --ids) builder.AddId(f, random_.Below(30));
      }
      const bool is_bad = given_ == kBadInput && sample == 2;
      builder.SetDense(0, is_bad ? std::numeric_limits<float>::quiet_NaN()
                                 : static_cast<float>(random_.Normal()));
      builder.SetLabel(static_cast<float>(random_.Below(2)));
      builder.EndSample();
    }
    ++given_;
    return std::move(*builder.Build());
  }
  uint64_t skipped_rows() const override { return 0; }

 private:
  Random random_{17};
  uint64_t given_ = 0;
};

std::unique_ptr<DenseNetwork> NetworkOf(const EmbeddingWire& wire) {
  const ModelConfig model{
      .towers = {{.name = "top",
                  .inputs = {"dense", "embeddings"},
                  .layers = {{.kind = LayerConfig::Kind::kLinear, .width = 5},
                             {.kind = LayerConfig::Kind::kRelu},
                             {.kind = LayerConfig::Kind::kLinear, .width = 1}}}}};
  DenseNetworkOptions options;
  options.inputs = {
      .dense_width = 1, .embedding_width = kWidth, .features = {{"a", 3}, {"b", 2}, {"c", 3}}};
  options.wire = wire;
  auto network = CreateTestNetwork(model, options);
  REQUIRE(network.ok());
  return *std::move(network);
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// The network that keeps rows, and every step of the other one.
class Beside final : public ForwardingNetwork {
 public:
  Beside(DenseNetwork& keeping, DenseNetwork& plain, const RowCodec& code, const RowPort& port)
      : ForwardingNetwork(keeping), keeping_(keeping), plain_(plain), code_(code), port_(port) {}

  StatusOr<BatchResult> ForwardBackwardOn(BatchBlock& block, MatrixView<const float> dense,
                                          std::span<const float> labels,
                                          std::span<float> probabilities, const RankStep& step,
                                          const std::function<void()>& meanwhile) override {
    const auto embeddings = plain_.blocks().Lease(kSamples, true);
    PoolRows(block, embeddings->embeddings);
    std::vector<float> expected(probabilities.size());
    const auto wanted = plain_.ForwardBackwardOn(*embeddings, dense, labels, expected, step);
    auto result = keeping_.ForwardBackwardOn(block, dense, labels, probabilities, step, meanwhile);
    REQUIRE(wanted.ok());
    REQUIRE(result.ok());
    CHECK(plain_.AwaitGradients(*embeddings).ok());
    const uint64_t number = block.rounding.step;
    CAPTURE(number);
    CHECK(result->finite == wanted->finite);
    if (wanted->finite) {
      CHECK(result->loss == wanted->loss);
      CHECK(SameBits(probabilities, expected));
    } else {
      skipped.insert(number);
    }
    std::vector<float>& gradient = gradients_of[number];
    gradient.assign(embeddings->gradients.flat().begin(), embeddings->gradients.flat().end());
    if (!wanted->finite) std::ranges::fill(gradient, 0.0F);
    return result;
  }

  Status ApplyGradients(float rate) override {
    CHECK(plain_.ApplyGradients(rate).ok());
    return keeping_.ApplyGradients(rate);
  }
  bool overlaps() const override { return keeping_.overlaps(); }
  void Load(BatchBlock& block, MatrixView<const float> dense,
            std::span<const float> labels) override {
    keeping_.Load(block, dense, labels);
  }
  Status AwaitGradients(BatchBlock& block) override { return keeping_.AwaitGradients(block); }

  std::set<uint64_t> skipped;
  std::map<uint64_t, std::vector<float>> gradients_of;  // By step, of embeddings: what to push.
  uint64_t hits = 0;

 private:
  // Of each id the row of the last pull that brought it.
  void PoolRows(const BatchBlock& block, MatrixView<float> pooled) {
    const uint64_t step = block.rounding.step;
    const CompactBatch& ids = *block.ids;
    const std::vector<Bytes> coming = port_.RowsOf(step, ids);
    std::map<RowKey, Bytes> came = came_;
    std::vector<const std::byte*> rows;
    size_t list = 0;
    for (size_t id = 0; id < ids.ids.size(); ++id) {
      while (id >= ids.unique_ends[list]) ++list;
      const RowKey key{kTables[list], ids.ids[id]};
      if (block.kept->is_here(id)) {
        ++hits;
        rows.push_back(came_.at(key).data());
      } else {
        came[key] = coming[id];
        rows.push_back(coming[id].data());
      }
    }
    code_.Pool(ids, rows, pooled);
    came_ = std::move(came);
  }

  DenseNetwork& keeping_;
  DenseNetwork& plain_;
  const RowCodec& code_;
  const RowPort& port_;
  std::map<RowKey, Bytes> came_;
};

class StepLog : public TrainObserver {
 public:
  void OnStep(const Step& step) override { steps.push_back(step); }
  std::vector<Step> steps;
};

TEST_CASE("No failure, and no step that is left out, lets a row be read that was never kept",
          "[kept]") {
  // Room for all rows, and for some.
  const size_t slots = GENERATE(100, 13);
  const uint64_t seed = GENERATE(1, 2, 3);
  CAPTURE(slots, seed);
  const EmbeddingWire wire{.dims = {3, 2, 3}, .rows = kFeatures, .row_slots = slots};
  const RowCodec code(wire.embeddings, kFeatures);
  RowPort port(code,
               {.calls = {.seed = seed,
                          .staleness = kWindow,
                          .row_age_steps = kRowAge,
                          .failure_rate = 0.05,
                          .failures = {absl::StatusCode::kNotFound,  // Expired.
                                       absl::StatusCode::kAborted, absl::StatusCode::kUnavailable}},
                .tables = kTables,
                .deaths = {6, 15, 16, 30},
                .bad_step = kBadRows});
  const auto keeping = NetworkOf(wire);
  const auto plain = NetworkOf({});
  Beside network(*keeping, *plain, code, port);
  TrainingConfig config{
      .batch_size = kSamples, .staleness = kWindow + kRowAge, .row_age_steps = kRowAge};
  config.progress_interval = std::chrono::hours(1);
  const auto collective = NewLocalCollective();
  StepLog log;
  Trainer trainer(config, /*run=*/1, port, network, *collective,
                  {.train = [] { return std::make_unique<Batches>(); },
                   .validation = {},
                   .test = {},
                   .features = kFeatures.size(),
                   .dense_width = 1,
                   .kept_rows = {.slots = slots, .tables = kTables}},
                  &log);
  const auto result = trainer.Run({});
  CAPTURE(result.status().ToString());
  REQUIRE(result.ok());

  CHECK(port.calls().violations() == std::vector<std::string>{});
  CHECK(port.calls().failures() > 0);
  CHECK(port.lost() > 4);
  CHECK(network.hits > 50);
  CHECK(port.pushed() == network.gradients_of);
  CHECK(SameBits(keeping->parameters(), plain->parameters()));
  // Bad rows are read while they are kept, and no longer.
  CHECK(result->skipped_steps == network.skipped.size());
  CHECK(network.skipped.contains(kBadInput));
  CHECK(network.skipped.contains(kBadRows));
  CHECK(*network.skipped.rbegin() <= kBadRows + kRowAge);
  REQUIRE(log.steps.size() == kSteps);
  for (const TrainObserver::Step& step : log.steps) {
    CHECK(step.applied == !network.skipped.contains(step.step));
    CHECK(step.kept->age_steps <= kRowAge);
    CHECK(step.staleness >= step.kept->age_steps);
    CHECK(step.staleness < config.staleness);
  }
}

}  // namespace
}  // namespace simurgh::testing
