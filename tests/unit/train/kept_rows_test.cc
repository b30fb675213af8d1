// What a trainer is told of a batch some of whose rows its network has kept.

#include <algorithm>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"
#include "simurgh/train/batch_pipeline.h"
#include "tests/unit/train/random_port.h"

namespace simurgh {
namespace {

constexpr uint64_t kSteps = 60;

// One id a sample, of few.
Batch BatchOf(Random& random) {
  BatchBuilder builder(1, 0);
  for (int sample = 0; sample < 12; ++sample) {
    builder.AddId(0, random.Below(1 + random.Below(30)));
    builder.EndSample();
  }
  return std::move(*builder.Build());
}

// Finds out from the batches alone which step's pull each row came with.
class Sources {
 public:
  // Of the batch's rows. Requires the batches in turn.
  std::vector<uint64_t> Of(const PulledBatch& pulled) {
    std::vector<uint64_t> steps;
    const std::vector<uint64_t>& ids = pulled.batch->sparse->ids;
    for (size_t id = 0; id < ids.size(); ++id) {
      if (!pulled.kept->is_here(id)) came_[ids[id]] = pulled.step;
      steps.push_back(came_.at(ids[id]));
    }
    return steps;
  }

 private:
  std::map<uint64_t, uint64_t> came_;  // By id, the step.
};

TEST_CASE("Kept rows: a batch's staleness is what its rows lack at most, and bounded", "[kept]") {
  const uint32_t window = GENERATE(1, 3);
  const uint32_t row_age = GENERATE(1, 5);
  const uint64_t seed = GENERATE(1, 2, 3);
  CAPTURE(window, row_age, seed);
  // One table of dim 1, whose rows have the number of the step that they came with.
  const auto blocks = NewBlockPool(1, {.dims = {1}, .rows = {{.dim = 1}}});
  RandomPort port({.seed = seed,
                   .staleness = window,
                   .row_age_steps = row_age,
                   .failure_rate = 0.1,
                   .failures = {absl::StatusCode::kUnavailable, absl::StatusCode::kNotFound,
                                absl::StatusCode::kAborted}});
  std::vector<std::vector<uint64_t>> sources;  // By step.
  std::vector<uint32_t> reported;
  {
    BatchPipeline pipeline(port, {.staleness = window,
                                  .row_age_steps = row_age,
                                  .kept_rows = {.slots = 20, .tables = {0}},
                                  .blocks = blocks.get(),
                                  .queue_batches = kSteps});
    Random random(seed);
    for (uint64_t step = 0; step < kSteps; ++step) REQUIRE(pipeline.Feed(BatchOf(random)));
    pipeline.EndInput(absl::OkStatus());
    Sources source;
    while (true) {
      const auto next = pipeline.Next();
      REQUIRE(next.ok());
      if (*next == nullptr) break;
      const PulledBatch& pulled = **next;
      sources.push_back(source.Of(pulled));
      reported.push_back(pulled.staleness);
      CHECK(pulled.block->coded_embeddings.bytes.size() ==
            (pulled.batch->sparse->ids.size() - pulled.kept->hits) * sizeof(float));
      std::ranges::fill(pulled.block->gradients.flat(), static_cast<float>(pulled.step) + 0.5F);
      pipeline.Finish();
    }
    REQUIRE(pipeline.WaitForPushes().ok());
  }
  CHECK(port.violations() == std::vector<std::string>{});
  REQUIRE(reported.size() == kSteps);
  uint64_t oldest = 0;
  for (uint64_t step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    for (const uint64_t source : sources[step]) {
      const uint64_t age = step - source;
      CHECK(reported[step] >= port.lacking().at(source) + age);
      CHECK(age <= row_age);
      oldest = std::max(oldest, age);
    }
    CHECK(reported[step] < window + row_age);
  }
  CHECK(oldest == row_age);
}

}  // namespace
}  // namespace simurgh
