#include "train/evaluator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "nn/metrics.h"
#include "tensor/finite.h"
#include "train/batch_pipeline.h"
#include "train/loader.h"
#include "train/sorted_merge.h"

namespace simurgh {
namespace {

// Batches pulled ahead: enough to keep the workers busy while the network computes.
constexpr uint32_t kBatchesAhead = 8;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Memory for predictions of other ranks.
constexpr size_t kMergeBytes = size_t{64} << 20;

// Predictions of a set that are not finite.
struct NotFinite {
  // First the number of predictions; then EmbeddingCheck counts.
  std::vector<double> counts;

  std::span<double> features() { return std::span(counts).subspan(1); }
  // Sums over the ranks. Errors: FAILED_PRECONDITION if there are any; of the collective.
  Status Check(Collective& collective, const EmbeddingCheck& embeddings);
};

Status NotFinite::Check(Collective& collective, const EmbeddingCheck& embeddings) {
  SIMURGH_RETURN_IF_ERROR(collective.Sum(Channel::kStep, counts));
  if (counts.front() == 0) return absl::OkStatus();
  const std::string problem = embeddings.Problem(features());
  return absl::FailedPreconditionError(absl::StrCat(
      "evaluation: ", counts.front(), " predictions are not finite; ",
      problem.empty() ? "the weights are too large: lower the learning rates" : problem));
}

Status NoRows() {
  return absl::InvalidArgumentError(
      "evaluation: the data set has no rows; check data.validation and data.test");
}

}  // namespace

const RankingResult::AtK& RankingResult::compared() const {
  const auto found = std::ranges::find(at, kComparedItems, &AtK::k);
  SIMURGH_CHECK(found != at.end());
  return *found;
}

double ValueOf(const EvaluationResult& result, EvaluationMetric metric) {
  if (IsOfRanking(metric) && !result.ranking) return kNaN;
  switch (metric) {
    case EvaluationMetric::kAuc:
      return result.auc;
    case EvaluationMetric::kLogLoss:
      return result.log_loss;
    case EvaluationMetric::kGroupAuc:
      return result.group_auc;
    case EvaluationMetric::kRmse:
      return result.rmse;
    case EvaluationMetric::kLoss:
      return result.loss;
    case EvaluationMetric::kRecall:
      return result.ranking->compared().recall;
    case EvaluationMetric::kHitRate:
      return result.ranking->compared().hit_rate;
    case EvaluationMetric::kNdcg:
      return result.ranking->compared().ndcg;
    case EvaluationMetric::kMrr:
      return result.ranking->mrr;
  }
  return kNaN;
}

std::vector<std::pair<std::string, double>> ReportedMetrics(const EvaluationResult& result) {
  std::vector<std::pair<std::string, double>> metrics;
  const auto add = [&](EvaluationMetric metric) {
    metrics.emplace_back(ReportedName(metric), ValueOf(result, metric));
  };
  if (result.ranking) {
    for (const RankingResult::AtK& at : result.ranking->at) {
      metrics.emplace_back(absl::StrCat("recall@", at.k), at.recall);
      metrics.emplace_back(absl::StrCat("hit_rate@", at.k), at.hit_rate);
      metrics.emplace_back(absl::StrCat("ndcg@", at.k), at.ndcg);
    }
    add(EvaluationMetric::kMrr);
    if (!std::isnan(result.ranking->popular_recall)) {
      metrics.emplace_back(absl::StrCat("popular_recall@", kComparedItems),
                           result.ranking->popular_recall);
    }
    return metrics;
  }
  if (IsRegression(result.loss_kind)) {
    add(EvaluationMetric::kRmse);
  } else {
    add(EvaluationMetric::kAuc);
    add(EvaluationMetric::kLogLoss);
    if (!std::isnan(result.group_auc)) add(EvaluationMetric::kGroupAuc);
  }
  metrics.emplace_back("calibration", result.calibration);
  if (result.loss_kind != LossConfig::Kind::kBce) add(EvaluationMetric::kLoss);
  return metrics;
}

std::vector<uint64_t> GroupsOf(const Batch& batch, std::optional<size_t> group_feature) {
  if (!group_feature) return batch.dense.groups;
  std::vector<uint64_t> found;
  const FeatureView groups = batch.sparse->feature(*group_feature);
  for (size_t i = 0; i < batch.size(); ++i) {
    const std::span<const uint32_t> occurrences = groups.sample(i);
    if (occurrences.empty()) {
      found.push_back(0);
      continue;
    }
    const uint64_t id = groups.ids[occurrences.front()];
    found.push_back(id == UINT64_MAX ? id : id + 1);
  }
  return found;
}

void PredictionMetrics::Add(const Batch& batch, std::span<const float> probabilities) {
  const DenseBatch& dense = batch.dense;
  const auto labels = std::span(dense.labels).first(probabilities.size());
  labels_.insert(labels_.end(), labels.begin(), labels.end());
  predictions_.insert(predictions_.end(), probabilities.begin(), probabilities.end());
  if (is_weighted_) {
    const std::span<const float> weights = dense.weights();
    weights_.insert(weights_.end(), weights.begin(), weights.end());
  }
  // A batch without groups, and those before the first one with groups, have zeros.
  const std::vector<uint64_t> groups = GroupsOf(batch, group_feature_);
  if (groups.empty() && groups_.empty()) return;
  const size_t samples = labels_.size() / tasks_.size();
  groups_.resize(samples - batch.size(), 0);
  groups_.insert(groups_.end(), groups.begin(), groups.end());
  groups_.resize(samples, 0);
}

Status PredictionMetrics::ComputeAucs(Collective& collective, size_t task,
                                      EvaluationResult& result) const {
  std::vector<uint64_t> scores;
  std::vector<WeightedScore> weighted;
  std::vector<GroupedScore> grouped;
  for (size_t i = task, sample = 0; i < labels_.size(); i += tasks_.size(), ++sample) {
    if (std::isnan(labels_[i])) continue;  // Unknown.
    const uint64_t score = RankedScore(labels_[i], predictions_[i]);
    const double weight = is_weighted_ ? double{weights_[sample]} : 1.0;
    is_weighted_ ? weighted.push_back({score, weight}) : scores.push_back(score);
    if (!groups_.empty() && groups_[sample] != 0) {
      grouped.push_back({groups_[sample], score, weight});
    }
  }
  const auto merge = [&]<typename Score>(std::vector<Score>& own, auto consume) {
    return MergeSorted<Score>(collective, own, kMergeBytes / sizeof(Score), consume);
  };
  if (is_weighted_) {
    std::ranges::sort(weighted);
    AucSumOf<double> auc;
    SIMURGH_RETURN_IF_ERROR(
        merge(weighted, [&](const WeightedScore& one) { auc.Add(one.ranked_score, one.weight); }));
    result.auc = auc.value();
  } else {
    SortScores(scores);
    AucSum auc;
    SIMURGH_RETURN_IF_ERROR(merge(scores, [&](uint64_t score) { auc.Add(score); }));
    result.auc = auc.value();
  }
  std::ranges::sort(grouped);
  GroupAucSum group_auc;
  SIMURGH_RETURN_IF_ERROR(merge(grouped, [&](const GroupedScore& one) { group_auc.Add(one); }));
  result.group_auc = group_auc.value();
  return absl::OkStatus();
}

StatusOr<EvaluationResult> PredictionMetrics::Compute(Collective& collective, size_t task) const {
  const LossConfig& loss = tasks_[task].loss;
  PredictionSums sums;
  for (size_t i = task, sample = 0; i < labels_.size(); i += tasks_.size(), ++sample) {
    if (std::isnan(labels_[i])) continue;
    sums.Add(loss, labels_[i], predictions_[i], is_weighted_ ? weights_[sample] : 1.0F);
  }
  std::array<double, 9> values = {sums.samples,       sums.positives, sums.weight,
                                  sums.labels,        sums.predicted, sums.squared_errors,
                                  sums.cross_entropy, sums.loss,      sums.squared_labels};
  SIMURGH_RETURN_IF_ERROR(collective.Sum(Channel::kStep, values));
  sums = {values[0], values[1], values[2], values[3], values[4],
          values[5], values[6], values[7], values[8]};
  // One of several labels can be unknown in all rows.
  if (sums.samples == 0 && tasks_.size() == 1) return NoRows();
  EvaluationResult result{.loss_kind = loss.kind,
                          .samples = static_cast<uint64_t>(sums.samples),
                          .auc = kNaN,
                          .log_loss = kNaN,
                          .normalized_entropy = kNaN,
                          .group_auc = kNaN,
                          .calibration = sums.calibration(),
                          .rmse = sums.rmse(),
                          .constant_rmse = sums.constant_rmse(),
                          .loss = sums.mean_loss(),
                          .tasks = {}};
  if (IsRegression(loss.kind)) return result;
  result.positives = static_cast<uint64_t>(sums.positives);
  result.log_loss = sums.log_loss();
  result.normalized_entropy = sums.normalized_entropy();
  SIMURGH_RETURN_IF_ERROR(ComputeAucs(collective, task, result));
  return result;
}

StatusOr<EvaluationResult> PredictionMetrics::Compute(Collective& collective) const {
  if (tasks_.size() == 1) return Compute(collective, 0);
  std::vector<EvaluationResult> results;
  for (size_t task = 0; task < tasks_.size(); ++task) {
    SIMURGH_ASSIGN_OR_RETURN(results.emplace_back(), Compute(collective, task));
  }
  if (std::ranges::all_of(results, [](const auto& one) { return one.samples == 0; })) {
    return NoRows();
  }
  EvaluationResult result = results.front();
  result.tasks = std::move(results);
  return result;
}

namespace {

// Implements Predict(). on_outputs: replaces the outputs of a batch by its predictions.
Status PredictBatches(
    EmbeddingPort& port, DenseNetwork& network, Collective& collective, const StepId& step_id,
    const OpenReader& open, const EvaluationOptions& options, std::stop_token stop,
    absl::FunctionRef<Status(const Batch& batch, std::span<float> outputs)> on_outputs) {
  BatchPipeline pipeline(port, {.mode = LookupMode::kEvaluate,
                                .run = step_id.run,
                                .rank = step_id.rank,
                                .staleness = kBatchesAhead,
                                .trained_steps = step_id.step,
                                .blocks = &network.blocks(),
                                .queue_batches = kBatchesAhead,
                                .retry_deadline = options.retry_deadline});
  const std::stop_callback stopper(std::move(stop), [&pipeline] { pipeline.Stop(); });
  const Loader loader([&open](uint32_t) { return open(); }, {}, pipeline);

  std::vector<float> probabilities;
  NotFinite not_finite{.counts = std::vector<double>(1 + options.embeddings.features())};
  while (true) {
    SIMURGH_ASSIGN_OR_RETURN(const PulledBatch* pulled, pipeline.Next());
    if (pulled == nullptr) break;
    const DenseBatch& dense = pulled->batch->dense;
    probabilities.resize(dense.batch_size * options.tasks.size());
    SIMURGH_RETURN_IF_ERROR(network.Predict(*pulled->block, dense.matrix(), probabilities));
    SIMURGH_RETURN_IF_ERROR(on_outputs(*pulled->batch, probabilities));
    if (!AllFinite(probabilities)) {
      not_finite.counts.front() += static_cast<double>(std::ranges::count_if(
          probabilities, [](float probability) { return !std::isfinite(probability); }));
      options.embeddings.Count(*pulled->block, dense.batch_size, not_finite.features());
    }
    if (!options.unseen.empty()) {
      options.embeddings.CountUnseen(*pulled->block, *pulled->batch->sparse, options.unseen);
    }
    if (options.sink) SIMURGH_RETURN_IF_ERROR(options.sink(*pulled->batch, probabilities));
    pipeline.Finish();
  }
  return not_finite.Check(collective, options.embeddings);
}

// The outputs of a data set for each binary label.
class OutputCollection {
 public:
  explicit OutputCollection(const EvaluationOptions& options)
      : options_(options), samples_(options.tasks.size()) {}

  // outputs: (B, tasks).
  void Add(const DenseBatch& batch, std::span<const float> outputs) {
    const auto correction = static_cast<float>(std::log(options_.kept_negatives));
    const size_t tasks = options_.tasks.size();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (IsRegression(options_.tasks[i % tasks].loss.kind)) continue;
      const float weight = options_.is_weighted ? batch.weights()[i / tasks] : 1.0F;
      if (std::isnan(batch.labels[i])) continue;  // Unknown.
      samples_[i % tasks].push_back({outputs[i] + correction, batch.labels[i], weight});
    }
  }

  // Sets the calibration of each binary label.
  Status Fit(Collective& collective, EvaluationResult& result) const {
    for (size_t task = 0; task < result.tasks.size(); ++task) {
      SIMURGH_RETURN_IF_ERROR(FitOne(collective, task, result.tasks[task]));
    }
    if (result.tasks.empty()) return FitOne(collective, 0, result);
    result.fitted = result.tasks.front().fitted;
    return absl::OkStatus();
  }

 private:
  Status FitOne(Collective& collective, size_t task, EvaluationResult& result) const {
    if (IsRegression(result.loss_kind)) return absl::OkStatus();
    if (result.auc == 1) {
      result.fitted = {.calibration = {},
                       .log_loss = result.log_loss,
                       .problem = "the predictions separate the labels"};
      return absl::OkStatus();
    }
    const auto sum = [&](std::span<double> values) {
      return collective.Sum(Channel::kStep, values);
    };
    SIMURGH_ASSIGN_OR_RETURN(result.fitted, FitCalibration(samples_[task], sum));
    return absl::OkStatus();
  }

  const EvaluationOptions& options_;
  std::vector<std::vector<LabelledOutput>> samples_;  // Indexed by task.
};

}  // namespace

std::vector<Calibration> CalibrationsOf(const EvaluationResult& result) {
  const auto of = [](const EvaluationResult& one) {
    return one.fitted ? one.fitted->calibration : Calibration();
  };
  std::vector<Calibration> calibrations;
  for (const EvaluationResult& task : result.tasks) calibrations.push_back(of(task));
  if (calibrations.empty()) calibrations.push_back(of(result));
  const bool is_fitted = std::ranges::any_of(
      calibrations, [](const Calibration& one) { return one != Calibration(); });
  return is_fitted ? calibrations : std::vector<Calibration>();
}

void KeepCalibrations(std::span<const Calibration> old, EvaluationResult& result) {
  constexpr double kNumbers = 3;
  const auto keep = [&](size_t task, EvaluationResult& one) {
    if (!one.fitted) return;
    FittedCalibration& fitted = *one.fitted;
    const auto samples = static_cast<double>(one.samples);
    const double gain = 2 * samples * (one.log_loss - fitted.log_loss);
    if (fitted.problem.empty() && gain > kNumbers * std::log(samples)) return;
    if (fitted.problem.empty()) fitted.problem = "the old numbers are as good for the rows";
    fitted.calibration = old.empty() ? Calibration() : old[task];
    fitted.log_loss = one.log_loss;
  };
  for (size_t task = 0; task < result.tasks.size(); ++task) keep(task, result.tasks[task]);
  keep(0, result);
}

Status Predict(EmbeddingPort& port, DenseNetwork& network, Collective& collective,
               const StepId& step_id, const OpenReader& open, const EvaluationOptions& options,
               std::stop_token stop) {
  const auto on_outputs = [&](const Batch& /*batch*/, std::span<float> outputs) {
    ToPredictions(options.tasks, options.kept_negatives, options.calibrations, outputs);
    UnscalePredictions(outputs, options.scales);
    return absl::OkStatus();
  };
  return PredictBatches(port, network, collective, step_id, open, options, std::move(stop),
                        on_outputs);
}

StatusOr<EvaluationResult> Evaluate(EmbeddingPort& port, DenseNetwork& network,
                                    Collective& collective, const StepId& step_id,
                                    const OpenReader& open, const EvaluationOptions& options,
                                    std::stop_token stop) {
  PredictionMetrics metrics(options.tasks, options.group_feature, options.is_weighted);
  OutputCollection collection(options);
  const auto on_outputs = [&](const Batch& batch, std::span<float> outputs) {
    if (options.fits_calibration) collection.Add(batch.dense, outputs);
    ToPredictions(options.tasks, options.kept_negatives, options.calibrations, outputs);
    UnscalePredictions(outputs, options.scales);
    metrics.Add(batch, outputs);
    return absl::OkStatus();
  };
  EvaluationOptions counting = options;
  const size_t features = options.embeddings.features();
  std::vector<double> unseen(2 * features);
  counting.unseen = unseen;
  SIMURGH_RETURN_IF_ERROR(PredictBatches(port, network, collective, step_id, open, counting,
                                         std::move(stop), on_outputs));
  SIMURGH_ASSIGN_OR_RETURN(EvaluationResult result, metrics.Compute(collective));
  if (options.fits_calibration) SIMURGH_RETURN_IF_ERROR(collection.Fit(collective, result));
  if (features == 0) return result;
  SIMURGH_RETURN_IF_ERROR(collective.Sum(Channel::kStep, unseen));
  for (size_t f = 0; f < features; ++f) {
    result.unseen_shares.push_back(unseen[f] > 0 ? unseen[features + f] / unseen[f] : 0.0);
  }
  return result;
}

}  // namespace simurgh
