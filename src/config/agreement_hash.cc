#include <filesystem>

#include "config/byte_writer.h"
#include "simurgh/base/hash.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {
namespace {

void AddInitializer(const InitializerConfig& initializer, ByteWriter* out) {
  out->Add(initializer.kind);
  for (const float value :
       {initializer.low, initializer.high, initializer.mean, initializer.stddev, initializer.shape,
        initializer.scale, initializer.rate, initializer.value}) {
    out->Add(value);
  }
}

// Without the learning rate and its schedule: the trainer alone follows them.
void AddOptimizer(const SparseOptimizerConfig& optimizer, ByteWriter* out) {
  out->Add(optimizer.kind);
  out->Add(optimizer.nesterov);
  out->Add(optimizer.row_wise);
  for (const float value :
       {optimizer.momentum, optimizer.epsilon, optimizer.initial_accumulator,
        optimizer.accumulator_decay, optimizer.beta1, optimizer.beta2, optimizer.beta, optimizer.l1,
        optimizer.l2, optimizer.group_l1, optimizer.weight_decay, optimizer.decoupled_weight_decay,
        optimizer.max_gradient_norm}) {
    out->Add(value);
  }
}

void AddEviction(const EvictionConfig& eviction, ByteWriter* out) {
  out->Add(eviction.idle_steps);
  out->Add(eviction.idle_time.count());
  out->Add(eviction.low_use.below);
  out->Add(eviction.low_use.idle_steps);
  out->Add(eviction.small_norm.below);
  out->Add(eviction.small_norm.idle_steps);
}

void AddTable(const TableConfig& table, ByteWriter* out) {
  out->Add(table.name);
  out->Add(table.dim);
  out->Add(table.capacity_rows);
  out->Add(table.capacity_bytes);
  out->Add(table.when_full);
  out->Add(table.weight_bound);
  out->Add(table.precision);
  out->Add(table.state_precision);
  AddInitializer(table.initializer, out);
  AddOptimizer(table.optimizer, out);
  out->Add(table.admission.kind);
  out->Add(table.admission.probability);
  out->Add(table.admission.occurrences);
  out->Add(table.admission.sketch_width);
  AddEviction(table.eviction, out);
}

void AddProcessing(const ProcessingConfig& processing, ByteWriter* out) {
  // Its folder may differ from machine to machine.
  out->Add(std::filesystem::path(processing.plugin.path).filename().string());
  out->Add(processing.plugin.parameters);
  out->Add(processing.plugin.max_ids);
  out->Add(processing.hash);
  out->Add(processing.seed);
  out->Add(processing.boundaries);
  out->Add(processing.quantiles);
  out->Add(processing.vocabulary);
  out->Add(processing.oov_ids);
  out->Add(processing.missing);
  out->Add(processing.max_length);
  out->Add(processing.keep);
  out->Add(processing.pad);
  out->Add(processing.modulo);
}

void AddFeature(const FeatureConfig& feature, ByteWriter* out) {
  out->Add(feature.name);
  out->Add(feature.column);
  out->Add(feature.columns);
  AddProcessing(feature.processing, out);
  out->Add(feature.table);
  out->Add(feature.hash_stack.rounds);
  out->Add(feature.hash_stack.buckets);
  out->Add(feature.pooling);
  out->Add(static_cast<uint64_t>(static_cast<unsigned char>(feature.weight_separator)));
}

}  // namespace

uint64_t AgreementHash(const ClusterConfig& config) {
  ByteWriter out;
  out.Add(config.name);
  out.Add(config.seed);
  out.Add(config.embedding_ps.instances.size());
  out.Add(config.embedding_ps.partitions);
  out.Add(config.tables.size());
  for (const TableConfig& table : config.tables) AddTable(table, &out);
  out.Add(config.features.size());
  for (const FeatureConfig& feature : config.features) AddFeature(feature, &out);
  return HashBytes(out.bytes());
}

}  // namespace simurgh
