#include <bit>
#include <concepts>
#include <filesystem>

#include "simurgh/base/hash.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {
namespace {

// Fields as bytes, the same on every machine: little-endian words, texts with their length.
class ByteWriter {
 public:
  void Add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift);
  }
  void Add(float value) { Add(uint64_t{std::bit_cast<uint32_t>(value)}); }
  void Add(const std::string& text) {
    Add(uint64_t{text.size()});
    bytes_ += text;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

void AddInitializer(const InitializerConfig& initializer, ByteWriter* out) {
  out->Add(static_cast<uint64_t>(initializer.kind));
  for (const float value :
       {initializer.low, initializer.high, initializer.mean, initializer.stddev, initializer.shape,
        initializer.scale, initializer.rate, initializer.value}) {
    out->Add(value);
  }
}

// Without the learning rate and its schedule: the trainer alone follows them.
void AddOptimizer(const SparseOptimizerConfig& optimizer, ByteWriter* out) {
  out->Add(static_cast<uint64_t>(optimizer.kind));
  out->Add(uint64_t{optimizer.nesterov});
  out->Add(uint64_t{optimizer.row_wise});
  for (const float value :
       {optimizer.momentum, optimizer.epsilon, optimizer.initial_accumulator,
        optimizer.accumulator_decay, optimizer.beta1, optimizer.beta2, optimizer.beta, optimizer.l1,
        optimizer.l2, optimizer.group_l1, optimizer.weight_decay, optimizer.decoupled_weight_decay,
        optimizer.max_gradient_norm}) {
    out->Add(value);
  }
}

void AddEviction(const EvictionConfig& eviction, ByteWriter* out) {
  out->Add(uint64_t{eviction.idle_steps});
  out->Add(static_cast<uint64_t>(eviction.idle_time.count()));
  out->Add(uint64_t{eviction.low_use.below});
  out->Add(uint64_t{eviction.low_use.idle_steps});
  out->Add(eviction.small_norm.below);
  out->Add(uint64_t{eviction.small_norm.idle_steps});
}

void AddTable(const TableConfig& table, ByteWriter* out) {
  out->Add(table.name);
  out->Add(uint64_t{table.dim});
  out->Add(table.capacity_rows);
  out->Add(table.capacity_bytes);
  out->Add(static_cast<uint64_t>(table.when_full));
  out->Add(table.weight_bound);
  out->Add(static_cast<uint64_t>(table.precision));
  out->Add(static_cast<uint64_t>(table.state_precision));
  AddInitializer(table.initializer, out);
  AddOptimizer(table.optimizer, out);
  out->Add(static_cast<uint64_t>(table.admission.kind));
  out->Add(table.admission.probability);
  out->Add(uint64_t{table.admission.occurrences});
  out->Add(uint64_t{table.admission.sketch_width});
  AddEviction(table.eviction, out);
}

void AddProcessing(const ProcessingConfig& processing, ByteWriter* out) {
  // Its folder may differ from machine to machine.
  out->Add(std::filesystem::path(processing.plugin.path).filename().string());
  out->Add(uint64_t{processing.plugin.parameters.size()});
  for (const std::string& parameter : processing.plugin.parameters) out->Add(parameter);
  out->Add(uint64_t{processing.plugin.max_ids});
  out->Add(static_cast<uint64_t>(processing.hash));
  out->Add(processing.seed);
  out->Add(uint64_t{processing.boundaries.size()});
  for (const float boundary : processing.boundaries) out->Add(boundary);
  out->Add(uint64_t{processing.quantiles});
  out->Add(uint64_t{processing.vocabulary.size()});
  for (const std::string& word : processing.vocabulary) out->Add(word);
  out->Add(processing.oov_ids);
  out->Add(static_cast<uint64_t>(processing.missing));
  out->Add(uint64_t{processing.max_length});
  out->Add(static_cast<uint64_t>(processing.keep));
  out->Add(uint64_t{processing.pad});
  out->Add(processing.modulo);
}

void AddFeature(const FeatureConfig& feature, ByteWriter* out) {
  out->Add(feature.name);
  out->Add(feature.column);
  out->Add(uint64_t{feature.columns.size()});
  for (const std::string& column : feature.columns) out->Add(column);
  AddProcessing(feature.processing, out);
  out->Add(feature.table);
  out->Add(uint64_t{feature.hash_stack.rounds});
  out->Add(feature.hash_stack.buckets);
  out->Add(static_cast<uint64_t>(feature.pooling));
  out->Add(static_cast<uint64_t>(static_cast<unsigned char>(feature.weight_separator)));
}

}  // namespace

uint64_t AgreementHash(const ClusterConfig& config) {
  ByteWriter out;
  out.Add(config.name);
  out.Add(config.seed);
  out.Add(uint64_t{config.embedding_ps.instances.size()});
  out.Add(uint64_t{config.embedding_ps.partitions});
  out.Add(uint64_t{config.tables.size()});
  for (const TableConfig& table : config.tables) AddTable(table, &out);
  out.Add(uint64_t{config.features.size()});
  for (const FeatureConfig& feature : config.features) AddFeature(feature, &out);
  return HashBytes(out.bytes());
}

}  // namespace simurgh
