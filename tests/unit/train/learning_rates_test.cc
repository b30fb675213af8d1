#include "train/learning_rates.h"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using Kind = LearningRateSchedule::Kind;

SparseOptimizerConfig With(const LearningRateSchedule& schedule, float rate = 0.1F) {
  SparseOptimizerConfig optimizer;
  optimizer.learning_rate = rate;
  optimizer.schedule = schedule;
  return optimizer;
}

// The factor after the warm-up, stepped instead of computed at once: by repeated multiplication,
// by equal differences, and by the rotation of a pointer.
std::vector<double> SteppedFactors(const LearningRateSchedule& schedule, uint64_t steps) {
  std::vector<double> factors;
  const double end = double{schedule.end_factor};
  const double count = static_cast<double>(schedule.decay_steps);
  double linear = 1;
  double exponential = 1;
  const double a_step = std::exp(std::log(double{schedule.decay_factor}) / count);
  double x = 1;
  double y = 0;
  const double c = std::cos(std::acos(-1.0) / count);
  const double s = std::sin(std::acos(-1.0) / count);
  for (uint64_t step = 0; step < steps; ++step) {
    switch (schedule.kind) {
      case Kind::kConstant:
        factors.push_back(1);
        break;
      case Kind::kLinear:
        factors.push_back(step >= schedule.decay_steps ? end : linear);
        break;
      case Kind::kExponential:
        factors.push_back(exponential < end ? end : exponential);
        break;
      case Kind::kCosine:
        factors.push_back(step >= schedule.decay_steps ? end : end + (1 - end) * (1 + x) / 2);
        break;
    }
    linear -= (1 - end) / count;
    exponential *= a_step;
    const double next = x * c - y * s;
    y = x * s + y * c;
    x = next;
  }
  return factors;
}

TEST_CASE("a rate follows its schedule at every step") {
  const Kind kind = GENERATE(Kind::kConstant, Kind::kLinear, Kind::kExponential, Kind::kCosine);
  const uint64_t warmup = GENERATE(0, 1, 7, 1000);
  const uint64_t decay = GENERATE(1, 10, 5000);
  const float end = GENERATE(0.0F, 0.125F, 1.0F);
  const LearningRateSchedule schedule{.kind = kind,
                                      .warmup_steps = warmup,
                                      .decay_steps = decay,
                                      .decay_factor = 0.75F,
                                      .end_factor = end};
  const SparseOptimizerConfig optimizer = With(schedule);
  const double rate = double{0.1F};
  CAPTURE(static_cast<int>(kind), warmup, decay, end);
  for (uint64_t step = 0; step < warmup; ++step) {
    const double expected = rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
    REQUIRE(std::abs(double{LearningRateAt(optimizer.learning_rate, optimizer.schedule, step)} -
                     expected) <= 1e-8);
  }
  const std::vector<double> factors = SteppedFactors(schedule, 2 * decay + 20);
  for (uint64_t i = 0; i < factors.size(); ++i) {
    CAPTURE(i);
    REQUIRE(
        std::abs(double{LearningRateAt(optimizer.learning_rate, optimizer.schedule, warmup + i)} -
                 rate * factors[i]) <= 1e-8);
  }
}

TEST_CASE("a schedule without a word is the rate itself, to the last step") {
  const SparseOptimizerConfig optimizer = With({}, 0.3F);
  for (const uint64_t step : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40, UINT64_MAX}) {
    CHECK(LearningRateAt(optimizer.learning_rate, optimizer.schedule, step) == 0.3F);
  }
}

TEST_CASE("schedules end where they should, however far the steps go") {
  for (const Kind kind : {Kind::kLinear, Kind::kExponential, Kind::kCosine}) {
    const LearningRateSchedule schedule{.kind = kind, .decay_steps = 10, .end_factor = 0.25F};
    CHECK(LearningRateAt(0.5F, schedule, UINT64_MAX) == 0.125F);
  }
}

TEST_CASE("rates change while they are followed") {
  std::vector<TableConfig> tables(2);
  tables[0].optimizer = With({}, 0.5F);
  tables[1].optimizer = With({.kind = Kind::kLinear, .decay_steps = 4}, 1.0F);
  LearningRates rates(tables);
  CHECK(rates.At(0) == std::vector<float>{0.5F, 1.0F});
  CHECK(rates.At(1) == std::vector<float>{0.5F, 0.75F});
  tables[0].optimizer.learning_rate = 0.125F;
  tables[1].optimizer.schedule.kind = Kind::kConstant;
  REQUIRE(rates.Change(tables).ok());
  CHECK(rates.At(1) == std::vector<float>{0.125F, 1.0F});
  tables.pop_back();
  CHECK(rates.Change(tables).code() == absl::StatusCode::kInvalidArgument);
  CHECK(rates.At(1) == std::vector<float>{0.125F, 1.0F});
}

}  // namespace
}  // namespace simurgh
