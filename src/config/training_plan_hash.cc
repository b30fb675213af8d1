#include <filesystem>

#include "config/byte_writer.h"
#include "simurgh/base/hash.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/config/input_keys.h"

namespace simurgh {
namespace {

void AddSchedule(const LearningRateSchedule& schedule, ByteWriter* out) {
  out->Add(schedule.kind, schedule.warmup_steps, schedule.decay_steps, schedule.decay_factor,
           schedule.end_factor);
}

void AddLoss(const LossConfig& loss, ByteWriter* out) {
  out->Add(loss.kind, loss.positive_weight, loss.gamma);
}

void AddModel(const ModelConfig& model, ByteWriter* out) {
  out->Add(model.towers.size());
  for (const TowerConfig& tower : model.towers) {
    out->Add(tower.name, tower.inputs, tower.layers.size());
    for (const LayerConfig& layer : tower.layers) {
      out->Add(layer.kind, layer.width, layer.momentum, layer.epsilon, layer.rank);
    }
  }
  AddLoss(model.loss, out);
  out->Add(model.tasks.size());
  for (const TaskConfig& task : model.tasks) {
    out->Add(task.label, task.weight);
    AddLoss(task.loss, out);
  }
}

void AddDenseOptimizer(const DenseOptimizerConfig& optimizer, ByteWriter* out) {
  out->Add(optimizer.kind, optimizer.learning_rate, optimizer.momentum, optimizer.nesterov,
           optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.initial_accumulator,
           optimizer.weight_decay, optimizer.decoupled_weight_decay, optimizer.max_gradient_norm,
           optimizer.average_decay);
  AddSchedule(optimizer.schedule, out);
}

// Beside InputKeys, and without what a rank may have for itself: how far it reads ahead, how long
// it tries, what it says.
void AddTraining(const TrainingConfig& training, ByteWriter* out) {
  out->Add(training.mode, training.staleness, training.row_age_steps, training.reproducible,
           training.embeddings, training.embedding_precision, training.gradient_precision,
           training.gradient_scale, training.allreduce.precision, training.allreduce.bucket_bytes,
           training.sync_batch_norm, training.evaluate_every_steps, training.evaluate_every_epochs,
           training.early_stopping.patience, training.early_stopping.metric,
           training.early_stopping.min_improvement, training.auc_group_feature, training.max_steps);
  AddDenseOptimizer(training.dense_optimizer, out);
}

// Folders may differ from machine to machine.
void AddFiles(const std::vector<std::string>& paths, ByteWriter* out) {
  out->Add(paths.size());
  for (const std::string& path : paths) out->Add(std::filesystem::path(path).filename().string());
}

// Beside InputKeys.
void AddData(const DataConfig& data, ByteWriter* out) {
  AddFiles(data.validation, out);
  AddFiles(data.test, out);
  out->Add(data.max_bad_rows);
}

}  // namespace

uint64_t TrainingPlanHash(const ClusterConfig& config) {
  ByteWriter out;
  for (const InputKey& key : InputKeys(config)) out.Add(key.key, key.digest);
  AddModel(config.model, &out);
  AddTraining(config.training, &out);
  AddData(config.data, &out);
  out.Add(config.loaders.instances.size());
  for (const FeatureConfig& feature : config.features) out.Add(feature.mask);
  for (const TableConfig& table : config.tables) {
    out.Add(table.optimizer.learning_rate);
    AddSchedule(table.optimizer.schedule, &out);
  }
  return HashBytes(out.bytes());
}

}  // namespace simurgh
