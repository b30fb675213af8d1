#include <bit>
#include <concepts>

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

void AddTable(const TableConfig& table, ByteWriter* out) {
  out->Add(table.name);
  out->Add(uint64_t{table.dim});
  out->Add(table.capacity_rows);
  out->Add(table.weight_bound);
  out->Add(static_cast<uint64_t>(table.initializer.kind));
  out->Add(table.initializer.low);
  out->Add(table.initializer.high);
  out->Add(table.initializer.mean);
  out->Add(table.initializer.stddev);
  out->Add(table.initializer.value);
  out->Add(static_cast<uint64_t>(table.optimizer.kind));
  out->Add(table.optimizer.learning_rate);
  out->Add(table.optimizer.epsilon);
  out->Add(table.optimizer.initial_accumulator);
  out->Add(table.optimizer.accumulator_decay);
  out->Add(uint64_t{table.optimizer.row_wise});
}

void AddFeature(const FeatureConfig& feature, ByteWriter* out) {
  out->Add(feature.name);
  out->Add(feature.column);
  out->Add(feature.table);
  out->Add(uint64_t{feature.hash_stack.rounds});
  out->Add(feature.hash_stack.buckets);
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
