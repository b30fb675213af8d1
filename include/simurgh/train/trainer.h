#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "absl/functional/function_ref.h"

#include "simurgh/base/status.h"
#include "simurgh/collective/collective.h"
#include "simurgh/config/training_config.h"
#include "simurgh/nn/dense_network.h"
#include "simurgh/telemetry/timeline.h"
#include "simurgh/train/batch_pipeline.h"
#include "simurgh/train/evaluator.h"
#include "simurgh/train/ports.h"

namespace simurgh {

class DenseExchange;
class GradientReducer;
class ProgressMeter;
class RankHeartbeat;

enum class EvaluationSet { kValidation, kTest };

// What a trainer tells while it works. All members do nothing by default.
//
// Threads: called on the trainer's thread.
class TrainObserver {
 public:
  struct Step {
    uint64_t step = 0;
    size_t samples = 0;
    double loss = 0;
    bool applied = true;     // False: skipped, because loss or a gradient was not finite.
    uint32_t staleness = 0;  // Of the batch at its pull.
    // The sum over the ranks, each at its own pull of the step; in mode async of the others as they
    // told last, 20 times a second, of their latest batches.
    uint32_t ranks_staleness = 0;
    std::chrono::nanoseconds waited{};    // For the batch's embeddings.
    std::chrono::nanoseconds computed{};  // Forward, backward, step.
  };

  struct Progress {
    uint64_t steps = 0;    // So far.
    uint64_t samples = 0;  // So far.
    double seconds = 0;    // So far, evaluations left out.
    double loss = 0;       // Mean since the last report.
    double auc = 0;  // Of the latest predictions (auc_window_samples), each made before its step.
    // With several labels, that of each; the one above is then the first label's.
    std::vector<double> task_aucs;
    double samples_per_second = 0;  // Since the last report.
    double staleness = 0;           // Mean since the last report.
    double ranks_staleness = 0;     // The same.
    // Mode async: the mean of OnDensePush since the last report, if there was any.
    std::optional<double> dense_staleness;
    uint64_t skipped_steps = 0;  // So far.
  };

  virtual ~TrainObserver() = default;
  virtual void OnStep(const Step& step) {}
  // Mode async: a push of dense gradients was applied; so many others, of all ranks, had come
  // between the weights that it was made with and itself.
  virtual void OnDensePush(uint64_t gap) {}
  virtual void OnProgress(const Progress& progress) {}
  virtual void OnEvaluation(uint64_t step, EvaluationSet set, const EvaluationResult& result) {}
};

struct TrainResult {
  uint64_t steps = 0;
  uint64_t samples = 0;
  uint64_t skipped_steps = 0;
  double seconds = 0;                          // Evaluations left out.
  bool stopped_early = false;                  // See EarlyStoppingConfig.
  std::optional<EvaluationResult> evaluation;  // After the last step; nothing without a test set.
};

struct TrainerData {
  OpenReader train;
  OpenReader validation;  // May be empty: the test set serves on the way, too.
  OpenReader test;        // May be empty: no evaluation at the end.
  size_t features = 0;
  size_t dense_width = 0;
  size_t tasks = 1;                     // Labels of a sample.
  std::optional<size_t> group_feature;  // Of EvaluationOptions.
  uint32_t async_staleness = 1;  // Mode async: batches between pull and acknowledged push, at most.
};

// One rank's training: reads, pulls, computes, pushes; evaluates on the way and at the end, which
// may come early. The last weights stay; none are put back.
//
// Evaluation starts when the push of every finished step is acknowledged, and leaves no trace:
// batches pulled ahead keep the embeddings they have.
//
// With several ranks, each trains on its share of the data, and evaluates its share: TrainerData
// opens shares. They do every step together, and a gradient is of the mean over all their batches;
// an error of one ends all, as the collective has it. Results of evaluations are of all shares.
//
// Mode async: servers own the dense weights, and nobody waits for another rank before the end. A
// step counts as one of ranks() parts of a global batch. Running statistics of batch norm stay with
// their rank and are averaged at the end; all end with the servers' last weights.
//
// Threads: one owner, which owns the network meanwhile.
class Trainer {
 public:
  // run: the same for all ranks. observer and timeline may be null; both outlive this.
  // dense_port: mode async, whose network should have a stateless optimizer: it is not used.
  Trainer(const TrainingConfig& config, uint64_t run, EmbeddingPort& port, DenseNetwork& network,
          Collective& collective, TrainerData data, TrainObserver* observer,
          Timeline* timeline = nullptr, DensePort* dense_port = nullptr);

  // Trains to the end of the data. A stop ends it soon: calls that are under way are answered, what
  // was pulled ahead is dropped. Errors: of the readers; of the port past the retry deadline;
  // CANCELLED after a stop.
  StatusOr<TrainResult> Run(std::stop_token stop);
  ~Trainer();

 private:
  // Whether several ranks take every step together: not in mode async.
  bool in_step() const { return collective_.ranks() > 1 && exchange_ == nullptr; }

  // --- A run, in trainer.cc.

  StatusOr<TrainResult> TrainAndTest(const std::stop_token& stop);
  Status TrainPasses(ProgressMeter& meter, const std::stop_token& stop);
  Status TrainAll(BatchPipeline& pipeline, ProgressMeter& meter, const std::stop_token& stop);
  // After a step; epoch_ended: it was the last one of a epoch.
  bool IsEvaluationDue(uint64_t steps, bool epoch_ended);
  StatusOr<EvaluationResult> EvaluateNow(uint64_t step, EvaluationSet set,
                                         const std::stop_token& stop);
  // Nobody goes on before all have come.
  Status AwaitRanks();
  // The same, when all have ended. Errors: INTERNAL naming a rank whose dense weights differ.
  Status CheckSameWeights();
  // Mode async: waits for this rank's pushes and for all ranks; then takes the servers' weights.
  Status SettleWeights();
  // Replaces batch norm's running statistics by their mean over the ranks.
  Status AverageStatistics();

  // --- A step, in trainer_step.cc.

  // What the ranks tell one another of a step.
  struct StepStatus {
    uint32_t finite = 1;     // Of all: whether everybody's loss and gradients are.
    uint32_t staleness = 0;  // Of all: the sum.
  };

  Status TrainStep(BatchPipeline& pipeline, const PulledBatch& pulled,
                   std::chrono::nanoseconds waited, ProgressMeter& meter);
  // Forward and backward; sums of gradients are on their way then, and on a network that overlaps
  // this the next batch, if it is here.
  StatusOr<BatchResult> ComputeStep(BatchPipeline& pipeline, const PulledBatch& pulled);
  // Where the network overlaps: takes the next batch, if it is here, and sends it to the device.
  void Prefetch(BatchPipeline& pipeline);
  // Gradients leave: of the batch at hand, zeros if the step is left out; or of the last one, if it
  // still has them. Errors: of the network.
  Status ReleaseBatch(BatchPipeline& pipeline, const PulledBatch& pulled, bool finite);
  Status FlushPrevious(BatchPipeline& pipeline);
  StatusOr<StepStatus> GatherStepStatus(const StepStatus& own);
  // Waits for the sums of the dense gradients; `meanwhile`, whose errors are its own, goes on while
  // this rank's are on their way.
  Status WaitForAllReduce(uint64_t step, absl::FunctionRef<Status()> meanwhile);
  // What becomes of them.
  Status ApplyStep(uint64_t step, bool finite);
  void ReportDensePushes(ProgressMeter& meter);

  const TrainingConfig config_;
  const uint64_t run_;
  EmbeddingPort& port_;
  DenseNetwork& network_;
  Collective& collective_;
  // Null for a rank alone, where devices sum, and in mode async.
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<DenseExchange> exchange_;  // Null but in mode async.
  // While several ranks train; null where those in step sum on devices.
  std::unique_ptr<RankHeartbeat> heartbeat_;
  const TrainerData data_;
  TrainObserver& observer_;
  Timeline* const timeline_;            // Null: nobody wants one.
  const PulledBatch* ahead_ = nullptr;  // The next one, if the trainer has it already.
  const PulledBatch* last_ = nullptr;   // The last one, while its gradients are on the device.
  std::vector<float> probabilities_;
  uint32_t epochs_ = 0;  // Ended so far.
};

}  // namespace simurgh
