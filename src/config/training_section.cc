#include <algorithm>

#include "absl/strings/str_cat.h"

#include "config/calibration.h"
#include "config/defaults.h"
#include "config/file.h"
#include "config/sections.h"

namespace simurgh {

void ReadLearningRateSchedule(MapReader& in, bool ftrl, LearningRateSchedule* schedule) {
  using Kind = LearningRateSchedule::Kind;
  constexpr uint64_t kMaxSteps = uint64_t{1} << 40;
  in.Choice<Kind>("kind", "course of the learning rate after the warm-up, see Schedules",
                  &schedule->kind,
                  {{"constant", Kind::kConstant},
                   {"linear", Kind::kLinear},
                   {"exponential", Kind::kExponential},
                   {"cosine", Kind::kCosine}});
  in.Integer("warmup_steps", "number of first steps over which the rate rises linearly",
             &schedule->warmup_steps, 0, kMaxSteps);
  const bool decays = schedule->kind != Kind::kConstant;
  const auto when_decaying = [&] {
    return in.When(decays, "set kind: linear, exponential or cosine");
  };
  when_decaying()->Integer("decay_steps", "length of the decay in steps; not with `constant`",
                           &schedule->decay_steps, 1, kMaxSteps);
  in.When(schedule->kind == Kind::kExponential, "set kind: exponential")
      ->Number("decay_factor", "`exponential`: factor per `decay_steps`", &schedule->decay_factor,
               kPositiveShare);
  when_decaying()->Number(
      "end_factor",
      "final share of the rate; not with `constant`; above 0 for `ftrl`, `group_ftrl`",
      &schedule->end_factor, kShare);
  if (ftrl && decays && schedule->end_factor == 0) {
    in.Error("end_factor", "ftrl and group_ftrl divide by the learning rate",
             "give an end_factor above 0");
  }
}

namespace {

// Returns whether evaluations of validation rows can follow each epoch.
bool IsWatched(const ClusterConfig& config) {
  const bool is_alone = config.nn_worker.instances.size() == 1;
  return !config.data.validation.empty() && config.loaders.instances.empty() &&
         !config.data.streams() &&
         (is_alone || config.training.mode != TrainingConfig::Mode::kAsync);
}

using std::chrono::milliseconds;
using std::chrono::minutes;

void ReadDenseOptimizer(MapReader& in, DenseOptimizerConfig* optimizer) {
  using Kind = DenseOptimizerConfig::Kind;
  const Kind& kind = optimizer->kind;
  in.Choice<Kind>("kind", "update rule of dense weights, see Optimizers", &optimizer->kind,
                  {{"sgd", Kind::kSgd},
                   {"adam", Kind::kAdam},
                   {"adagrad", Kind::kAdagrad},
                   {"lamb", Kind::kLamb}});
  if (!in.describing()) optimizer->learning_rate = DefaultRate(kind);
  {
    const auto scope = in.For(Scope::kTraining);
    in.Number("learning_rate",
              "step size before the schedule's factor; default by kind, see Optimizers",
              &optimizer->learning_rate, kPositive);
    in.Map("schedule",
           [&](MapReader& map) { ReadLearningRateSchedule(map, false, &optimizer->schedule); });
  }
  {
    const auto when = in.When(kind == Kind::kSgd, "set kind: sgd");
    in.Number("momentum", "`sgd`: `v = momentum * v + g; w -= learning_rate * v`",
              &optimizer->momentum, kBelowOne);
    in.When(optimizer->momentum > 0, "set momentum above 0")
        ->Bool("nesterov", "`sgd` with momentum: steps along `g + momentum * v`",
               &optimizer->nesterov);
  }
  {
    const auto when = in.When(kind == Kind::kAdam || kind == Kind::kLamb, "set kind: adam or lamb");
    in.Number("beta1", "`adam`, `lamb`: decay of the first moment", &optimizer->beta1, kBelowOne);
    in.Number("beta2", "`adam`, `lamb`: decay of the second moment", &optimizer->beta2, kBelowOne);
  }
  in.When(kind != Kind::kSgd, "set kind: adam, adagrad or lamb")
      ->Number("epsilon", "number added to the root; not with `sgd`", &optimizer->epsilon,
               kPositive);
  in.When(kind == Kind::kAdagrad, "set kind: adagrad")
      ->Number("initial_accumulator", "`adagrad`: first value of the sum of squares `s`",
               &optimizer->initial_accumulator, kNonNegative);
  in.Number("weight_decay", "factor of `w` added to the gradient", &optimizer->weight_decay,
            kNonNegative);
  in.Number("decoupled_weight_decay",
            "share `learning_rate * decoupled_weight_decay` of `w` subtracted per step (AdamW); "
            "part of the scaled step of `lamb`",
            &optimizer->decoupled_weight_decay, kNonNegative);
  in.Number("max_gradient_norm",
            "norm to which a longer gradient of all dense weights is scaled; 0: no limit",
            &optimizer->max_gradient_norm, kNonNegative);
  in.Number("average_decay",
            "largest decay of the moving average of weights that evaluations use; 0: no average, "
            "see Optimizers",
            &optimizer->average_decay, kBelowOne);
}

void ReadVectors(MapReader& in, TrainingConfig* training) {
  using Precision = VectorPrecision;
  const std::vector<std::pair<std::string, Precision>> precisions = {{"f32", Precision::kF32},
                                                                     {"bf16", Precision::kBf16},
                                                                     {"f16", Precision::kF16},
                                                                     {"int8", Precision::kInt8}};
  using Embeddings = TrainingConfig::Embeddings;
  in.Choice<Embeddings>("embeddings",
                        "response to a pull: pooled embeddings, rows that the nn-worker pools, or "
                        "the smaller of both, see Row batches",
                        &training->embeddings,
                        {{"auto", Embeddings::kSmaller},
                         {"pooled", Embeddings::kPooled},
                         {"rows", Embeddings::kRows}});
  in.Choice<Precision>("embedding_precision",
                       "precision of embeddings or rows sent to the nn-worker, see Precision",
                       &training->embedding_precision, precisions);
  in.Choice<Precision>(
      "gradient_precision",
      "precision of embedding gradients sent to the embedding worker, see Precision",
      &training->gradient_precision, precisions);
  in.When(training->gradient_precision == Precision::kF16, "set gradient_precision: f16")
      ->Number("gradient_scale",
               "`gradient_precision: f16`: factor of gradients on the wire, which keeps small ones "
               "above zero",
               &training->gradient_scale, kPositive);
}

void ReadAllReduce(MapReader& in, AllReduceConfig* allreduce) {
  using Precision = AllReduceConfig::Precision;
  in.Choice<Precision>(
      "precision", "precision of dense gradients between ranks, see Precision",
      &allreduce->precision,
      {{"f32", Precision::kF32}, {"bf16", Precision::kBf16}, {"int8", Precision::kInt8}});
  in.Integer("bucket_bytes",
             "bytes of f32 gradients that are summed at once, during the backward pass",
             &allreduce->bucket_bytes, 1'024, 1 << 30);
}

bool HasGroups(const ClusterConfig& config) {
  return std::ranges::find(config.data.columns, ColumnConfig::Kind::kGroup, &ColumnConfig::kind) !=
         config.data.columns.end();
}

// Reports a metric that evaluations of the first label do not have.
void CheckMetric(const std::string& key, EvaluationMetric metric, const ClusterConfig& config,
                 Diagnostics* diagnostics) {
  const TaskConfig& first = config.model.tasks.front();
  const bool of_numbers = metric == EvaluationMetric::kRmse;
  const bool of_all = metric == EvaluationMetric::kLoss;
  if (IsInBatch(config.model) || IsOfRanking(metric)) {
    if (IsInBatch(config.model) && IsOfRanking(metric)) return;
    diagnostics->Report(key,
                        absl::StrCat(NameOf(metric), " is no metric of label '", first.label,
                                     "', whose loss is ", NameOf(first.loss.kind)),
                        IsOfRanking(metric) ? "choose another metric, or set model: two_tower"
                                            : "choose ndcg@20, recall@20, hit_rate@20 or mrr");
  } else if (!of_all && of_numbers != IsRegression(first.loss.kind)) {
    diagnostics->Report(
        key,
        absl::StrCat(NameOf(metric), " is no metric of label '", first.label, "', whose loss is ",
                     NameOf(first.loss.kind)),
        of_numbers ? "choose auc, log_loss, group_auc or loss" : "choose rmse or loss");
  } else if (metric == EvaluationMetric::kGroupAuc && config.training.auc_group_feature.empty() &&
             !HasGroups(config)) {
    diagnostics->Report(key, "group_auc requires groups",
                        "give a column kind: group, or set training.auc_group_feature");
  }
}

void ReadEarlyStopping(MapReader& in, EarlyStoppingConfig* stopping) {
  in.Integer("patience",
             "number of evaluations in a row without improvement that end training; 0: off; see "
             "Epochs",
             &stopping->patience, 0, 1'000'000, "2 with validation, else 0");
  const auto when = in.When(stopping->patience > 0, "set patience above 0");
  ReadMetric(in, "metric", "metric of the first label that must improve", &stopping->metric);
  in.Number("min_improvement", "difference that counts as an improvement",
            &stopping->min_improvement, kNonNegative);
}

// Reads `calibration`, which CalibrationConfig::Of() takes from the settings.
void ReadCalibration(MapReader& in) {
  std::string text = "beta";
  in.Text("calibration",
          "correction of probabilities; `none`; or each label's slopes and shift, as in `0.8 1.2 "
          "-0.1, 1 0`; see Calibration",
          &text, "`beta`, `none` or numbers", Need::kOptional, CalibrationConfig::Problem);
  if (text == "platt") text = "beta";
  // The setting is the whole text, also if it is long.
  if (in.Has("calibration")) in.context()->settings[in.PathOf("calibration")] = text;
}

// Servers do not see lookups of cached rows, and could evict these rows as idle.
void CheckRowAge(const ClusterConfig& config, Diagnostics* diagnostics) {
  const TrainingConfig& training = config.training;
  const char* const bytes = "embedding_worker.row_cache_bytes";
  const bool has_cache = config.embedding_worker.row_cache_bytes > 0;
  if (has_cache != (training.row_age_steps > 0)) {
    diagnostics->Report(has_cache ? bytes : "training.row_age_steps", "has no effect alone",
                        absl::StrCat("set ", bytes, " and training.row_age_steps, or neither"));
    return;
  }
  if (!has_cache) return;
  if (training.reproducible) {
    diagnostics->Report("training.row_age_steps",
                        "cached rows make pulls depend on timing, which reproducible: true forbids",
                        absl::StrCat("remove it and ", bytes));
    return;
  }
  if (training.row_age_steps >= training.staleness) {
    diagnostics->Report("training.row_age_steps",
                        absl::StrCat(training.row_age_steps, " is out of range"),
                        absl::StrCat("use a value below training.staleness, ", training.staleness));
  }
  for (size_t i = 0; i < config.tables.size(); ++i) {
    const EvictionConfig& eviction = config.tables[i].eviction;
    const auto check = [&](const char* rule, bool is_on, uint32_t idle_steps) {
      if (!is_on || idle_steps > training.row_age_steps) return;
      diagnostics->Report(
          absl::StrCat("tables.", i, ".eviction.", rule),
          absl::StrCat(idle_steps, " is out of range with a row cache"),
          absl::StrCat("use a value above training.row_age_steps, ", training.row_age_steps));
    };
    check("idle_steps", eviction.idle_steps > 0, eviction.idle_steps);
    check("low_use.idle_steps", eviction.low_use.below > 0, eviction.low_use.idle_steps);
    check("small_norm.idle_steps", eviction.small_norm.below > 0, eviction.small_norm.idle_steps);
  }
}

// The gradients of max pooling need the argmax, which only an embedding worker computes.
void CheckEmbeddings(const ClusterConfig& config, Diagnostics* diagnostics) {
  if (config.training.embeddings != TrainingConfig::Embeddings::kRows) {
    if (config.nn_worker.batch_row_bytes == 0) return;
    diagnostics->Report("nn_worker.batch_row_bytes", "requires training.embeddings: rows",
                        "remove it, or set that");
    return;
  }
  for (const FeatureConfig& feature : config.features) {
    if (feature.pooling != Pooling::kMax) continue;
    diagnostics->Report(absl::StrCat(feature.key, ".pooling"),
                        "is max, which training.embeddings: rows does not support",
                        "choose another pooling, or training.embeddings: pooled");
  }
}

// Each server updates its own range of the dense weights, and no rank waits for another.
void CheckAsync(const ClusterConfig& config, Diagnostics* diagnostics) {
  const TrainingConfig& training = config.training;
  const DenseOptimizerConfig& optimizer = training.dense_optimizer;
  const auto refuse = [diagnostics](const char* key, const char* reason, const char* remedy) {
    diagnostics->Report(key, absl::StrCat("is not supported by mode: async: ", reason), remedy);
  };
  const char* apart = "servers update separate ranges of the dense weights";
  if (optimizer.kind == DenseOptimizerConfig::Kind::kLamb) {
    refuse("training.dense_optimizer.kind", apart, "choose sgd, adam or adagrad");
  }
  if (optimizer.max_gradient_norm > 0) {
    refuse("training.dense_optimizer.max_gradient_norm", apart, "remove it");
  }
  if (optimizer.average_decay > 0) {
    refuse("training.dense_optimizer.average_decay", apart, "remove it");
  }
  const char* alone = "no rank waits for another";
  if (training.row_age_steps > 0) {
    refuse("training.row_age_steps", "only the forward buffer bounds the age of its rows",
           "remove it and embedding_worker.row_cache_bytes");
  }
  if (training.reproducible) refuse("training.reproducible", alone, "set it to false");
  if (training.sync_batch_norm) refuse("training.sync_batch_norm", alone, "set it to false");
  if (training.allreduce.precision != AllReduceConfig::Precision::kF32) {
    refuse("training.allreduce.precision", "gradients go to the servers, in f32", "remove it");
  }
  if (config.nn_worker.instances.size() == 1) return;
  if (training.evaluate_every_steps > 0) {
    refuse("training.evaluate_every_steps", alone, "evaluate at the end, or train with one rank");
  }
  if (training.evaluate_every_epochs > 0) {
    refuse("training.evaluate_every_epochs", alone, "evaluate at the end, or train with one rank");
  }
}

void CheckServerLoss(const ClusterConfig& config, Diagnostics* diagnostics) {
  using Mode = TrainingConfig::Mode;
  const TrainingConfig& training = config.training;
  if (config.checkpoint.on_server_loss == CheckpointConfig::OnServerLoss::kRollback) return;
  const auto refuse = [diagnostics](const char* with, const char* reason) {
    diagnostics->Report("checkpoint.on_server_loss",
                        absl::StrCat("partial is not supported with ", with, ": ", reason),
                        "choose rollback");
  };
  if (training.reproducible) refuse("training.reproducible", "the run would not repeat");
  if (training.mode == Mode::kSync) refuse("training.mode: sync", "the run would not repeat");
  if (training.mode == Mode::kAsync) {
    refuse("training.mode: async", "servers own the dense weights, too");
  }
}

// One sample has no variance.
void CheckBatchNorm(const ClusterConfig& config, Diagnostics* diagnostics) {
  const TrainingConfig& training = config.training;
  if (training.batch_size > 1) return;
  if (training.sync_batch_norm && config.nn_worker.instances.size() > 1) return;
  for (const TowerConfig& tower : config.model.towers) {
    for (const LayerConfig& layer : tower.layers) {
      if (layer.kind != LayerConfig::Kind::kBatchNorm) continue;
      diagnostics->Report(
          "training.batch_size",
          absl::StrCat("1 is too small for batch_norm in tower '", tower.name,
                       "', which learns nothing from one sample"),
          "use 2 or more, remove batch_norm, or set training.sync_batch_norm with several "
          "nn-workers");
      return;
    }
  }
}

}  // namespace

void ReadMetric(MapReader& in, const std::string& key, const std::string& meaning,
                std::optional<EvaluationMetric>* metric) {
  auto read = EvaluationMetric::kAuc;
  const std::string text =
      absl::StrCat(meaning, "; by default `auc`, of numbers `loss`, of items `ndcg@20`");
  in.Choice(key, text.c_str(), &read, kMetricNames);
  if (in.Has(key)) *metric = read;
}

void ReadTraining(MapReader& root, const std::string& folder, ClusterConfig* config) {
  TrainingConfig* const training = &config->training;
  constexpr Scope kBatches = Scope::kInput | Scope::kTraining | Scope::kModel;
  const auto scope = root.For(Scope::kTraining);
  root.Map("training", [&](MapReader& in) {
    using Mode = TrainingConfig::Mode;
    in.Choice<Mode>("mode", "coordination of sparse and dense training, see Modes", &training->mode,
                    {{"sync", Mode::kSync},
                     {"hybrid", Mode::kHybrid},
                     {"naive_hybrid", Mode::kNaiveHybrid},
                     {"async", Mode::kAsync}});
    in.For(kBatches)->Integer("batch_size", "samples per rank and step", &training->batch_size, 1,
                              65'535);
    in.Integer("evaluate_every_steps",
               "steps between evaluations during training; 0: none by steps",
               &training->evaluate_every_steps, 0, uint64_t{1} << 40);
    const bool is_watched =
        !in.describing() && IsWatched(*config) && training->evaluate_every_steps == 0;
    if (is_watched) training->evaluate_every_epochs = 1;
    in.Integer("evaluate_every_epochs",
               "epochs between evaluations during training; 0: none by epochs; see Epochs",
               &training->evaluate_every_epochs, 0, 1'000'000, "1 with validation, else 0");
    if (is_watched && training->evaluate_every_epochs > 0) {
      training->epochs = UsualCourse().epochs;
      training->early_stopping.patience = UsualCourse().patience;
    }
    in.Map("early_stopping",
           [&](MapReader& map) { ReadEarlyStopping(map, &training->early_stopping); });
    ReadCalibration(in);
    in.For(Scope::kInput | Scope::kTraining)
        ->Integer("epochs",
                  "number of times the training data is read; 0: until training is stopped, see "
                  "Epochs",
                  &training->epochs, 0, 1'000'000, "20 with validation, else 1");
    {
      const auto batches = in.For(kBatches);
      in.Bool("drop_last", "whether a last batch or step that is not full is left out, see Shares",
              &training->drop_last);
      in.Number("keep_negatives",
                "share of rows with label 0 that are trained on; evaluations use all rows and "
                "correct predictions",
                &training->keep_negatives, kPositiveShare);
    }
    in.Integer(
        "staleness",
        "maximum number of batches of a rank between pull and acknowledged push, see Staleness",
        &training->staleness, 1, 64);
    in.Integer("row_age_steps",
               "maximum age of cached rows in steps, below `staleness`; 0: no cache, see Row cache",
               &training->row_age_steps, 0, 63);
    in.Bool("reproducible",
            "whether runs repeat to the bit: step t reads exactly the pushes up to step t - "
            "`staleness`",
            &training->reproducible);
    ReadVectors(in, training);
    in.Map("allreduce", [&](MapReader& map) { ReadAllReduce(map, &training->allreduce); });
    in.Bool("sync_batch_norm", "whether batch norm uses the statistics of all ranks' batches",
            &training->sync_batch_norm);
    training->dense_optimizer.kind = DenseOptimizerConfig::Kind::kAdam;
    training->dense_optimizer.learning_rate = DefaultRate(training->dense_optimizer.kind);
    in.For(Scope::kTraining | Scope::kModel)->Map("dense_optimizer", [&](MapReader& map) {
      ReadDenseOptimizer(map, &training->dense_optimizer);
    });
    in.Name(
        "auc_group_feature",
        "feature whose first id groups samples, in place of a column of `kind: group`; see Metrics",
        &training->auc_group_feature);
    in.For(Scope::kNone)
        ->Integer(
            "auc_window_samples",
            "number of latest predictions in metrics of progress lines, see Continuous training",
            &training->auc_window_samples, 1, 10'000'000);
    in.Integer("max_steps", "maximum number of steps; 0: no limit beyond `epochs`",
               &training->max_steps, 0, uint64_t{1} << 40);
    in.Integer(
        "max_skipped_steps",
        "number of dense steps in a row, left out for loss or gradients not finite, that ends the "
        "run",
        &training->max_skipped_steps, 1, 1'000'000);
    const auto own = in.For(Scope::kNone);
    in.Duration("progress_interval", "time between progress lines in the log",
                &training->progress_interval, milliseconds(10), minutes(60));
    ReadPath(in, "tensorboard", "folder of events for TensorBoard; none: nothing is written",
             "path of a folder", folder, Need::kOptional, &training->tensorboard);
    in.Duration("retry_deadline", "time for which a failing batch is retried before the run fails",
                &training->retry_deadline, milliseconds(1), minutes(60));
    in.Integer("loader_queue_batches", "maximum number of batches read ahead per nn-worker",
               &training->loader_queue_batches, 1, 65'536);
  });
}

void ApplyMode(ClusterConfig* config) {
  using Mode = TrainingConfig::Mode;
  TrainingConfig& training = config->training;
  // Without staleness, nothing is gained by pushes that do not wait for those of other ranks. An
  // optimizer that gets them one by one takes larger steps. A server that has lost rows misses
  // pushes, so then none may wait.
  training.sums_pushes =
      training.mode == Mode::kSync ||
      (training.mode == Mode::kHybrid && training.staleness == 1 && !training.reproducible &&
       config->checkpoint.on_server_loss == CheckpointConfig::OnServerLoss::kRollback);
  if (training.mode != Mode::kSync) return;
  config->training.staleness = 1;
  config->training.row_age_steps = 0;
  config->embedding_worker.row_cache_bytes = 0;
}

void ApplyBest(ClusterConfig* config) {
  const TrainingConfig& training = config->training;
  CheckpointConfig& checkpoint = config->checkpoint;
  const bool evaluates = !config->data.validation.empty() &&
                         (training.evaluate_every_steps > 0 || training.evaluate_every_epochs > 0);
  const bool saves = !checkpoint.directory.empty() && training.mode != TrainingConfig::Mode::kAsync;
  if (!evaluates || !saves) checkpoint.keep_best = 0;
  std::optional<EvaluationMetric>& stops_by = config->training.early_stopping.metric;
  const bool is_regression = IsRegression(config->model.tasks.front().loss.kind);
  const auto by_default = IsInBatch(config->model) ? EvaluationMetric::kNdcg
                          : is_regression          ? EvaluationMetric::kLoss
                                                   : EvaluationMetric::kAuc;
  if (!stops_by) stops_by = by_default;
  if (!checkpoint.best_by) {
    checkpoint.best_by = training.early_stopping.patience > 0 ? *stops_by : by_default;
  }
}

void ApplyStream(ClusterConfig* config) {
  if (!config->data.streams()) return;
  if (config->loaders.instances.empty()) {
    config->loaders.instances.emplace_back();
    config->settings["loaders.instances"] = "1 element";
  }
  std::vector<InstanceConfig>& trainers = config->nn_worker.instances;
  if (trainers.size() == 1 && trainers[0].address.empty()) trainers[0].address = "127.0.0.1:7421";
}

void CheckReplay(const ClusterConfig& config, Diagnostics* diagnostics) {
  if (config.data.replay.empty() || config.loaders.instances.empty()) return;
  diagnostics->Report("data.replay", "is not supported with loaders",
                      "remove it, or loaders.instances");
}

void CheckStream(const ClusterConfig& config, Diagnostics* diagnostics) {
  if (!config.data.streams()) return;
  const TrainingConfig& training = config.training;
  const bool ends = config.data.kafka.stop_at_end;
  if (ends ? training.epochs != 1 : training.epochs != 0) {
    diagnostics->Report("training.epochs",
                        absl::StrCat(training.epochs, " is not supported with data.kafka",
                                     ends ? ".stop_at_end" : ""),
                        ends ? "remove it"
                             : "set 0 to train until training is stopped, or "
                               "data.kafka.stop_at_end: true");
  }
  const auto refuse = [diagnostics](const std::string& key, const char* remedy) {
    diagnostics->Report(key, "needs a first reading of the data, which data.kafka does not have",
                        remedy);
  };
  for (size_t i = 0; i < config.data.columns.size(); ++i) {
    if (!config.data.columns[i].fit) continue;
    refuse(absl::StrCat("data.columns.", i, ".fit"), "give mean and stddev, or fit: false");
  }
  for (const FeatureConfig& feature : config.features) {
    if (feature.processing.quantiles == 0) continue;
    refuse(absl::StrCat(feature.key, ".quantiles"), "give boundaries");
  }
  if (config.data.format == DataConfig::Format::kParquet) {
    diagnostics->Report("data.format", "is not supported with data.kafka",
                        "choose json, arrow, csv, criteo, libsvm or libffm");
  }
  if (config.data.criteo.fit) refuse("data.criteo.fit", "remove it");
  if (config.data.format == DataConfig::Format::kCsv && config.data.csv.header) {
    diagnostics->Report("data.csv.header", "is not supported with data.kafka",
                        "remove it, and list the columns in the order of the records");
  }
}

void CheckTraining(const ClusterConfig& config, Diagnostics* diagnostics) {
  const TrainingConfig& training = config.training;
  CheckStream(config, diagnostics);
  CheckReplay(config, diagnostics);
  if (training.mode == TrainingConfig::Mode::kAsync) CheckAsync(config, diagnostics);
  CheckServerLoss(config, diagnostics);
  std::vector<std::string> features;
  for (const FeatureConfig& feature : config.features) features.push_back(feature.name);
  if (!training.auc_group_feature.empty()) {
    diagnostics->CheckKnown("training.auc_group_feature", "feature", training.auc_group_feature,
                            features);
    if (HasGroups(config)) {
      diagnostics->Report("training.auc_group_feature",
                          "a column of kind: group groups samples, too", "remove one of them");
    }
  }
  if (training.mode == TrainingConfig::Mode::kNaiveHybrid && training.reproducible) {
    diagnostics->Report("training.reproducible", "is not supported by mode: naive_hybrid",
                        "choose mode: hybrid, or set it to false");
  }
  CheckRowAge(config, diagnostics);
  CheckEmbeddings(config, diagnostics);
  CheckBatchNorm(config, diagnostics);
  if (!config.loaders.instances.empty() && training.evaluate_every_epochs > 0) {
    diagnostics->Report("training.evaluate_every_epochs",
                        "is not supported with loaders, which hide the ends of epochs",
                        "set training.evaluate_every_steps instead");
  }
  CheckMetric("checkpoint.best_by", *config.checkpoint.best_by, config, diagnostics);
  if (training.early_stopping.patience == 0) return;
  if (config.checkpoint.best_by != training.early_stopping.metric) {
    diagnostics->Report("checkpoint.best_by", "differs from training.early_stopping.metric",
                        "remove it, or choose the same metric");
  }
  if (config.data.validation.empty()) {
    diagnostics->Report("training.early_stopping", "requires data.validation",
                        "list files there; the test files must not influence training");
  }
  if (training.evaluate_every_steps == 0 && training.evaluate_every_epochs == 0) {
    diagnostics->Report("training.early_stopping", "requires evaluations during training",
                        "set training.evaluate_every_steps or evaluate_every_epochs");
  }
}

}  // namespace simurgh
