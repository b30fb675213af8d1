#include "train/sorted_merge.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/unit/collective/rank_threads.h"

namespace simurgh::testing {
namespace {

using Run = std::vector<uint64_t>;

// Counts exchanges and keeps the largest one.
class CountingCollective final : public Collective {
 public:
  explicit CountingCollective(Collective& collective) : collective_(collective) {}

  uint32_t rank() const override { return collective_.rank(); }
  uint32_t ranks() const override { return collective_.ranks(); }
  Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
             std::span<float> residual, absl::FunctionRef<void()> meanwhile) override {
    return collective_.Sum(channel, values, precision, residual, meanwhile);
  }
  Status Sum(Channel channel, std::span<double> values) override {
    return collective_.Sum(channel, values);
  }
  Status Gather(Channel channel, std::span<const std::byte> own,
                std::span<std::byte> all) override {
    ++exchanges;
    max_bytes = std::max(max_bytes, all.size());
    return collective_.Gather(channel, own, all);
  }
  void Close(Channel channel) override { collective_.Close(channel); }
  void Abort(const Status& reason) override { collective_.Abort(reason); }

  size_t exchanges = 0;
  size_t max_bytes = 0;

 private:
  Collective& collective_;
};

struct Merge {
  Run merged;
  size_t exchanges = 0;
  size_t max_bytes = 0;
};

std::vector<Merge> MergeRuns(const std::vector<Run>& runs, size_t max_elements) {
  std::vector<Merge> merges(runs.size());
  const auto statuses = RunRanks(
      static_cast<uint32_t>(runs.size()), [&](std::unique_ptr<Collective>& collective) -> Status {
        CountingCollective counting(*collective);
        Merge& own = merges[collective->rank()];
        SIMURGH_RETURN_IF_ERROR(
            MergeSorted<uint64_t>(counting, runs[collective->rank()], max_elements,
                                  [&](uint64_t element) { own.merged.push_back(element); }));
        own.exchanges = counting.exchanges;
        own.max_bytes = counting.max_bytes;
        return absl::OkStatus();
      });
  for (const Status& status : statuses) {
    CAPTURE(status.ToString());
    REQUIRE(status.ok());
  }
  return merges;
}

Run Sorted(const std::vector<Run>& runs) {
  Run all;
  for (const Run& run : runs) all.insert(all.end(), run.begin(), run.end());
  std::ranges::sort(all);
  return all;
}

Run RandomRun(Random& random, size_t count, uint64_t first, uint64_t values) {
  Run run(count);
  for (uint64_t& element : run) element = first + random.Below(values);
  std::ranges::sort(run);
  return run;
}

TEST_CASE("ranks merge their sorted runs in pieces, ties and runs of any length included") {
  const size_t max_elements = GENERATE(1, 6, 50, 10'000);
  CAPTURE(max_elements);
  Random random(max_elements);
  const std::vector<std::vector<Run>> cases = {
      {RandomRun(random, 100, 0, 1'000), RandomRun(random, 37, 0, 1'000), {}},
      {RandomRun(random, 60, 0, 3), RandomRun(random, 61, 1, 3), RandomRun(random, 9, 2, 1)},
      {RandomRun(random, 30, 100, 50), RandomRun(random, 40, 0, 50)},  // Disjoint runs.
      {{}, {}},
  };
  for (const std::vector<Run>& runs : cases) {
    const Run expected = Sorted(runs);
    for (const Merge& merge : MergeRuns(runs, max_elements)) {
      CHECK(merge.merged == expected);
      const size_t piece = std::max<size_t>(max_elements / runs.size(), 1);
      CHECK(merge.max_bytes <= std::max<size_t>(piece, 1) * runs.size() * sizeof(uint64_t));
      size_t pieces = 1;  // The counts.
      for (const Run& run : runs) pieces += (run.size() + piece - 1) / piece;
      CHECK(merge.exchanges <= pieces);
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
