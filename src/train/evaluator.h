#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collective/collective.h"
#include "config/model_config.h"
#include "config/statistics.h"
#include "config/training_config.h"
#include "data/reading/batch_reader.h"
#include "nn/batch_block.h"
#include "nn/calibration.h"
#include "nn/dense_network.h"
#include "train/ports.h"

namespace simurgh {

// How a model of two towers ranks all items for users. Values are means over the users with a
// relevant item, those of a row with a label above 0. Items of equal scores rank behind each other,
// the relevant ones last. Weights of samples do not count.
//
// recall: share of a user's relevant items among the first k. hit_rate: 1 if one of them is there.
// ndcg: sum of 1 / log2(rank + 1) of the relevant items among the first k, over that of the best
// ranking. mrr: 1 / rank of the first relevant item.
// Source of ndcg: Jarvelin and Kekalainen, "Cumulated gain-based evaluation of IR techniques", TOIS
// 2002, with gains of 0 and 1.
struct RankingResult {
  struct AtK {
    uint32_t k = 0;
    double recall = 0;
    double hit_rate = 0;
    double ndcg = 0;
  };

  uint64_t users = 0;  // Users with a relevant item.
  uint64_t items = 0;  // Items that are ranked.
  // Relevant items that the items' files lack. They count as not found.
  uint64_t unknown_items = 0;
  std::vector<AtK> at = {};
  double mrr = 0;
  // Recall at kComparedItems of the items that training has most often with a label above 0, the
  // same for all users; NaN when unknown.
  double popular_recall = std::numeric_limits<double>::quiet_NaN();

  // Returns the metrics for kComparedItems, which `at` has.
  const AtK& compared() const;
};

// Means are weighted by the samples' weights, if there are any.
struct EvaluationResult {
  LossConfig::Kind loss_kind = LossConfig::Kind::kBce;
  uint64_t samples = 0;
  // Metrics of a binary label; 0 and NaN for another label.
  uint64_t positives = 0;  // Samples with label 1.
  double auc = 0;          // Exact; NaN when a class is missing.
  double log_loss = 0;     // Mean binary cross entropy.
  double normalized_entropy = 0;
  double group_auc = 0;  // See GroupAucSum; NaN when no feature groups the samples.
  // Metrics of any label.
  double calibration = 0;    // Mean prediction over the mean label.
  double rmse = 0;           // Root of the mean squared error.
  double constant_rmse = 0;  // RMSE of the mean label for every sample.
  double loss = 0;           // Mean of the task's loss, see LossConfig.
  // The calibration of a binary label, see EvaluationOptions::fits_calibration.
  std::optional<FittedCalibration> fitted = {};
  // The result of each label if there are several; the values above are then the first label's.
  std::vector<EvaluationResult> tasks;
  // One per feature: among the samples with ids, the share whose ids training has never seen; see
  // EmbeddingCheck::CountUnseen. Empty without an EmbeddingCheck.
  std::vector<double> unseen_shares = {};
  // Set for a model of two towers, which has no other metrics.
  std::optional<RankingResult> ranking = {};
};

double ValueOf(const EvaluationResult& result, EvaluationMetric metric);

// Returns the metrics that results and manifests have for a label of this kind: names, see
// ReportedName, and values.
std::vector<std::pair<std::string, double>> ReportedMetrics(const EvaluationResult& result);

// Receives each batch, in order, with its probabilities: (B, tasks), row by row. An error ends the
// predictions.
using PredictionSink =
    std::function<Status(const Batch& batch, std::span<const float> probabilities)>;

// Returns the group of each sample of a batch, 0 for none; empty if no sample is in one.
// group_feature: see EvaluationOptions.
std::vector<uint64_t> GroupsOf(const Batch& batch, std::optional<size_t> group_feature);

// Collects predictions of samples with labels, and computes their metrics.
//
// Memory: 8 bytes per sample and label; per sample 4 with weights and 8 with groups. Compute()
// needs up to 40 more per sample, and 64 MiB for those of other ranks. Threads: one owner.
class PredictionMetrics {
 public:
  // See EvaluationOptions.
  PredictionMetrics(std::vector<TaskConfig> tasks, std::optional<size_t> group_feature,
                    bool is_weighted)
      : tasks_(std::move(tasks)), group_feature_(group_feature), is_weighted_(is_weighted) {}

  // probabilities: (B, tasks), row by row.
  void Add(const Batch& batch, std::span<const float> probabilities);

  // Returns the metrics of the predictions of all ranks. AUCs are exact.
  // Errors: INVALID_ARGUMENT without samples; of the collective.
  StatusOr<EvaluationResult> Compute(Collective& collective) const;

 private:
  StatusOr<EvaluationResult> Compute(Collective& collective, size_t task) const;
  // Sets auc and group_auc.
  Status ComputeAucs(Collective& collective, size_t task, EvaluationResult& result) const;

  const std::vector<TaskConfig> tasks_;
  const std::optional<size_t> group_feature_;
  const bool is_weighted_;
  // One per sample; labels and predictions: one per sample and task, (samples, tasks).
  std::vector<float> labels_;
  std::vector<float> predictions_;
  std::vector<float> weights_;    // Empty without weights.
  std::vector<uint64_t> groups_;  // 0: in no group. Empty: no sample is in a group.
};

struct EvaluationOptions {
  std::vector<TaskConfig> tasks = {TaskConfig()};  // One per label.
  bool is_weighted = false;                        // See DenseBatch::weights().
  double kept_negatives = 1;                       // See ToPredictions().
  std::vector<Calibration> calibrations = {};      // See ToPredictions().
  // Evaluate() fits a calibration to the outputs of each binary label. The metrics are without it.
  bool fits_calibration = false;
  std::vector<LabelScale> scales = {};  // One per label; empty: none is scaled.
  // A sample's group is the first id of this feature; samples without an id have no group. None:
  // see DenseBatch::groups.
  std::optional<size_t> group_feature;
  EmbeddingCheck embeddings;      // Names features in errors.
  std::span<double> unseen = {};  // Counts of EmbeddingCheck::CountUnseen; empty: none.
  std::chrono::milliseconds retry_deadline{60'000};
  PredictionSink sink;  // May be empty.
};

// Opens a data set from its beginning.
using OpenReader = std::function<StatusOr<std::unique_ptr<BatchReader>>()>;
// Opens an epoch, counted from 0, of the training data.
using OpenEpoch = std::function<StatusOr<std::unique_ptr<BatchReader>>(uint32_t epoch)>;

// Predicts a data set with the current weights, which do not change; unseen ids read as zeros. Each
// rank predicts its own share. Ignores labels and options.group_feature.
//
// step_id: the trainer's. Its step is the number of finished steps, all of them acknowledged.
// Errors: of the reader, the port past `retry_deadline`, the network and the sink;
// FAILED_PRECONDITION, on all ranks, if a prediction is not finite; CANCELLED after a stop.
// Threads: the network's owner. It calls the sink.
Status Predict(EmbeddingPort& port, DenseNetwork& network, Collective& collective,
               const StepId& step_id, const OpenReader& open, const EvaluationOptions& options,
               std::stop_token stop);

// Returns the fitted calibrations of an evaluation, one per label; empty if there are none.
std::vector<Calibration> CalibrationsOf(const EvaluationResult& result);
// Replaces a fitted calibration by the label's old one, which the metrics use, and sets the problem
// of the fit. Keeps a fit that the rows prefer by Schwarz's criterion.
//
// old: one per label; empty: none.
void KeepCalibrations(std::span<const Calibration> old, EvaluationResult& result);

// Predicts like Predict(), and compares the predictions with the labels. Each rank holds the
// predictions of its share; all ranks get the result of all shares. AUCs are exact.
// Errors: of Predict(); INVALID_ARGUMENT for an empty set.
StatusOr<EvaluationResult> Evaluate(EmbeddingPort& port, DenseNetwork& network,
                                    Collective& collective, const StepId& step_id,
                                    const OpenReader& open, const EvaluationOptions& options,
                                    std::stop_token stop);

}  // namespace simurgh
