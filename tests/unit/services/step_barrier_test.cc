#include "services/embedding_ps/step_barrier.h"

#include <algorithm>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "base/step_id.h"

namespace simurgh {
namespace {

// Results of pushes, by name.
using Ends = std::map<std::string, absl::StatusCode>;

HeldPush Push(uint64_t run, uint64_t step, uint32_t rank, uint32_t ranks, Ends& ends,
              const std::string& name = "") {
  return {.step_id = {.run = run, .rank = rank, .step = step, .ranks = ranks},
          .groups = {},
          .end = [&ends, name](const Status& status, const PushReport& /*report*/) {
            ends[name] = status.code();
          }};
}

// "step.rank step.rank | ..."
std::string Names(const std::vector<std::vector<HeldPush>>& ready) {
  std::string names;
  for (const auto& together : ready) {
    if (!names.empty()) names += "| ";
    for (const HeldPush& push : together) {
      names += std::to_string(push.step_id.step) + "." + std::to_string(push.step_id.rank) + " ";
    }
  }
  return names;
}

TEST_CASE("the pushes of a step are released in rank order when all ranks have pushed") {
  StepBarrier gate;
  Ends ends;
  CHECK(Names(gate.Add(Push(7, 0, 2, 3, ends))).empty());
  CHECK(Names(gate.Add(Push(7, 0, 0, 3, ends))).empty());
  CHECK(Names(gate.Add(Push(7, 0, 1, 3, ends))) == "0.0 0.1 0.2 ");
  // A repeated push has been applied; another step waits for its own pushes.
  CHECK(Names(gate.Add(Push(7, 0, 1, 3, ends))) == "0.1 ");
  CHECK(Names(gate.Add(Push(7, 1, 1, 3, ends))).empty());
  CHECK(ends.empty());
}

TEST_CASE("a run that begins at a step waits for that step first") {
  StepBarrier gate;
  Ends ends;
  gate.BeginAt(7, 1'000);
  CHECK(Names(gate.Add(Push(7, 999, 0, 2, ends))) == "999.0 ");
  CHECK(Names(gate.Add(Push(7, 1'001, 0, 2, ends))).empty());
  CHECK(Names(gate.Add(Push(7, 1'001, 1, 2, ends))).empty());
  CHECK(Names(gate.Add(Push(7, 1'000, 1, 2, ends))).empty());
  CHECK(Names(gate.Add(Push(7, 1'000, 0, 2, ends))) == "1000.0 1000.1 | 1001.0 1001.1 ");
}

TEST_CASE("steps are released in order, however their pushes arrive") {
  constexpr uint32_t kRanks = 3;
  constexpr uint64_t kSteps = 20;
  const uint64_t seed = GENERATE(range(1, 20));
  CAPTURE(seed);
  Random random(seed);
  StepBarrier gate;
  Ends ends;
  std::vector<std::pair<uint64_t, uint32_t>> coming;
  for (uint64_t step = 0; step < kSteps; ++step) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) coming.emplace_back(step, rank);
  }
  for (size_t i = coming.size(); i > 1; --i) std::swap(coming[i - 1], coming[random() % i]);
  std::string seen;
  for (const auto& [step, rank] : coming) {
    for (const auto& together : gate.Add(Push(1, step, rank, kRanks, ends))) {
      seen += Names({together});
    }
  }
  std::string expected;
  for (uint64_t step = 0; step < kSteps; ++step) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      expected += std::to_string(step) + "." + std::to_string(rank) + " ";
    }
  }
  CHECK(seen == expected);
  CHECK(ends.empty());
}

TEST_CASE("a repeated push replaces the earlier one") {
  StepBarrier gate;
  Ends ends;
  (void)gate.Add(Push(7, 0, 0, 2, ends, "first"));
  (void)gate.Add(Push(7, 0, 0, 2, ends, "again"));
  CHECK(ends == Ends{{"first", absl::StatusCode::kAborted}});
  CHECK(Names(gate.Add(Push(7, 0, 1, 2, ends))) == "0.0 0.1 ");
}

TEST_CASE("a push whose step never completes fails") {
  StepBarrier gate;
  Ends ends;
  (void)gate.Add(Push(7, 0, 0, 2, ends, "late"));
  gate.TimeOut({.run = 7, .rank = 0, .step = 0});
  gate.TimeOut({.run = 7, .rank = 0, .step = 0});
  gate.TimeOut({.run = 8, .rank = 0, .step = 0});
  CHECK(ends == Ends{{"late", absl::StatusCode::kDeadlineExceeded}});
  // It has not been applied, so a retry is valid.
  (void)gate.Add(Push(7, 0, 0, 2, ends, "again"));
  CHECK(Names(gate.Add(Push(7, 0, 1, 2, ends))) == "0.0 0.1 ");

  ends.clear();
  (void)gate.Add(Push(7, 1, 0, 2, ends, "waits"));
  (void)gate.Add(Push(7, 1, 1, 3, ends, "of more ranks"));
  CHECK(ends == Ends{{"of more ranks", absl::StatusCode::kInvalidArgument}});
  gate.Close();
  CHECK(ends["waits"] == absl::StatusCode::kAborted);
  CHECK(gate.Add(Push(7, 1, 1, 2, ends, "after")).empty());
  CHECK(ends["after"] == absl::StatusCode::kAborted);
}

TEST_CASE("pushes of forgotten runs fail") {
  StepBarrier gate;
  Ends ends;
  (void)gate.Add(Push(1, 0, 0, 2, ends, "old"));
  for (uint64_t run = 2; run < 2 + StepBarrier::kMaxRuns; ++run) {
    (void)gate.Add(Push(run, 0, 0, 2, ends, std::to_string(run)));
  }
  CHECK(ends == Ends{{"old", absl::StatusCode::kAborted}});
}

TEST_CASE("a sum has every id once, with gradients added in the order of the pushes") {
  Ends ends;
  const std::vector<uint64_t> ids_0{5, 9};
  const std::vector<uint64_t> ids_1{9, 4};
  const std::vector<float> gradients_0{1, 2, 3, 1e8F};
  // bf16: 1, -2, -1e8, 8.
  const std::vector<uint16_t> gradients_1{0x3f80, 0xc000, 0xccbf, 0x4100};
  const std::vector<PushGroup> groups_0{
      {.table = 2, .learning_rate = 0.5F, .ids = ids_0, .gradients = {gradients_0.data(), 2, 2}}};
  const std::vector<PushGroup> groups_1{
      {.table = 2,
       .learning_rate = 0.5F,
       .ids = ids_1,
       .gradients = {reinterpret_cast<const std::byte*>(gradients_1.data()), RowPrecision::kBf16, 2,
                     2}},
      {.table = 3, .learning_rate = 0.25F, .ids = ids_0, .gradients = {gradients_0.data(), 2, 2}}};
  std::vector<HeldPush> pushes;
  pushes.push_back(Push(1, 0, 0, 2, ends));
  pushes.push_back(Push(1, 0, 1, 2, ends));
  pushes[0].groups = groups_0;
  pushes[1].groups = groups_1;
  const auto sum = ReducePushes(pushes);
  REQUIRE(sum->groups.size() == 2);
  CHECK(sum->groups[0].table == 2);
  CHECK(sum->groups[0].learning_rate == 0.5F);
  CHECK(sum->tables[0].ids == std::vector<uint64_t>{5, 9, 4});
  const std::vector<float>& gradients = sum->tables[0].gradients;
  CHECK(std::vector<float>(gradients.begin(), gradients.begin() + 4) ==
        std::vector<float>{1, 2, 4, 1e8F - 2});
  CHECK(gradients[5] == 8.0F);
  CHECK(sum->groups[1].table == 3);
  CHECK(sum->tables[1].gradients == gradients_0);
}

TEST_CASE("a run that begins ends the waiting pushes of older starts of its training") {
  StepBarrier gate;
  Ends ends;
  const uint64_t old_start = RunNumber(1, 7);
  gate.Add(Push(old_start, 0, 0, 2, ends, "old"));
  gate.Add(Push(RunNumber(1, 8), 0, 0, 2, ends, "other"));
  gate.BeginAt(RunNumber(2, 7), 5);
  CHECK(ends == Ends{{"old", absl::StatusCode::kAborted}});
}

}  // namespace
}  // namespace simurgh
