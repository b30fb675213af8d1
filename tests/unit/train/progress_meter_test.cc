#include "train/progress_meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""h;

using Step = TrainObserver::Step;
using Metrics = TrainObserver::Progress::Metrics;

const std::vector<TaskConfig> kOne(1);
const std::vector<TaskConfig> kTwo(2);

// One label and prediction a sample, or several side by side.
void Add(ProgressMeter& meter, const Step& step, const std::vector<float>& labels,
         const std::vector<float>& probabilities) {
  const size_t tasks = probabilities.size() / std::max<size_t>(step.samples, 1);
  meter.Add(step, {.batch_size = step.samples, .labels = labels, .tasks = tasks}, probabilities);
}

std::vector<double> AucsOf(const TrainObserver::Progress& progress) {
  std::vector<double> aucs;
  for (const Metrics& task : progress.tasks) aucs.push_back(task.auc);
  return aucs;
}

TEST_CASE("a report has means of the steps since the last one, and counts of all") {
  ProgressMeter meter(0ms, 100, kOne);
  Add(meter, {.samples = 1, .loss = 4, .staleness = 0, .ranks_staleness = 1}, {1}, {0.5F});
  Add(meter, {.samples = 3, .loss = 2, .staleness = 3, .ranks_staleness = 8}, {0, 0, 1},
      {0.1F, 0.2F, 0.3F});
  meter.AddDensePush(2);
  meter.AddDensePush(5);
  const TrainObserver::Progress first = meter.Report();
  CHECK(first.steps == 2);
  CHECK(first.samples == 4);
  CHECK(first.loss == Approx((1 * 4 + 3 * 2) / 4.0));
  CHECK(first.staleness == Approx(1.5));
  CHECK(first.ranks_staleness == Approx(4.5));
  CHECK(first.dense_staleness == Approx(3.5));
  CHECK(first.tasks.empty());
  CHECK_FALSE(meter.has_steps());

  Add(meter, {.samples = 2, .loss = 1, .staleness = 5, .ranks_staleness = 6}, {0, 1}, {0.1F, 0.2F});
  const TrainObserver::Progress second = meter.Report();
  CHECK(second.steps == 3);
  CHECK(second.samples == 6);
  CHECK(second.loss == Approx(1));
  CHECK(second.staleness == Approx(5));
  CHECK(second.ranks_staleness == Approx(6));
  CHECK_FALSE(second.dense_staleness.has_value());
}

TEST_CASE("the window has the last steps that have enough samples") {
  ProgressMeter meter(0ms, 4, kOne);
  Add(meter, {.samples = 3, .loss = 9}, {1, 1, 1}, {0.1F, 0.1F, 0.1F});
  Add(meter, {.samples = 2, .loss = 1}, {0, 1}, {0.25F, 0.5F});
  const TrainObserver::Window all = meter.Report().window;
  CHECK(all.samples == 5);
  CHECK(all.loss == Approx((3 * 9 + 2 * 1) / 5.0));
  CHECK(all.calibration == Approx((0.3 + 0.75) / 4));
  Add(meter, {.samples = 2, .loss = NAN, .applied = false}, {0, 1}, {NAN, NAN});
  Add(meter, {.samples = 2, .loss = 2}, {1, 1}, {0.75F, 0.5F});
  const TrainObserver::Window last = meter.Finish().window;
  CHECK(last.samples == 4);
  CHECK(last.loss == Approx(1.5));
  CHECK(last.calibration == Approx(2.0 / 3));
  CHECK(last.auc == 1);
}

TEST_CASE("a step that was left out counts as one, and its numbers do not") {
  ProgressMeter meter(0ms, 100, kOne);
  Add(meter, {.samples = 2, .loss = 1}, {0, 1}, {0.1F, 0.2F});
  Add(meter, {.samples = 2, .loss = NAN, .applied = false}, {0, 1}, {NAN, NAN});
  const TrainObserver::Progress progress = meter.Report();
  CHECK(progress.steps == 2);
  CHECK(progress.samples == 4);
  CHECK(progress.skipped_steps == 1);
  CHECK(progress.loss == Approx(1));
  CHECK(progress.metrics.auc == 1);
  CHECK(meter.Finish().skipped_steps == 1);
}

TEST_CASE("the AUC on the way is that of a window of predictions, label by label") {
  constexpr size_t kWindow = 4;
  ProgressMeter meter(0ms, kWindow, kTwo);
  // Older than the window: the first label's in the wrong order, the second's in the right one.
  Add(meter, {.samples = 2}, {1, 1, 0, 0}, {0.1F, 0.9F, 0.9F, 0.1F});
  CHECK(AucsOf(meter.Report()) == std::vector<double>{0, 1});
  // Four samples: the first label is in order except for one pair, the second is reversed.
  Add(meter, {.samples = 4}, {1, 1, 1, 1, 0, 0, 0, 0},
      {0.9F, 0.2F, 0.5F, 0.1F, 0.6F, 0.8F, 0.1F, 0.9F});
  const TrainObserver::Progress progress = meter.Report();
  CHECK(AucsOf(progress) == std::vector<double>{0.75, 0});
  CHECK(progress.metrics.auc == 0.75);
}

TEST_CASE("a label of numbers has the error since the last report in place of an AUC") {
  std::vector<TaskConfig> tasks(2);
  tasks[1].loss.kind = LossConfig::Kind::kSquaredError;
  ProgressMeter meter(0ms, 100, tasks);
  // The last two are weights.
  Add(meter, {.samples = 2}, {1, 5, 0, 5, 1, 1}, {0.9F, 0, 0.1F, 0});
  CHECK(meter.Report().tasks[1].rmse == 5);
  Add(meter, {.samples = 2}, {1, 7, 0, 8, 1, 3}, {0.9F, 5, 0.1F, 8});
  const TrainObserver::Progress progress = meter.Report();
  CHECK(progress.tasks[1].rmse == Approx(1));
  CHECK(std::isnan(progress.tasks[1].auc));
  CHECK(progress.metrics.auc == 1);
  CHECK(std::isnan(progress.metrics.rmse));
}

TEST_CASE("time that is left out is not that of training, and no reason to report") {
  ProgressMeter meter(0ms, 1, kOne);
  CHECK_FALSE(meter.due());
  Add(meter, {.samples = 1}, {1}, {0.5F});
  CHECK(meter.due());
  meter.LeaveOut(1h);
  CHECK_FALSE(meter.due());
  CHECK(meter.Finish().seconds < 0);
}

}  // namespace
}  // namespace simurgh
