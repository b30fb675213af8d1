#pragma once

#include <cstdint>
#include <string>

namespace simurgh {

// Folds any number of ids into rounds * buckets rows; see feature hashing in the reference.
struct HashStackConfig {
  uint32_t rounds = 0;   // 0: off. At most 8.
  uint64_t buckets = 0;  // Rows a round.
};

// An ID feature: what the network sees of a column. YAML section `features`; their order is the
// order of the embeddings in the network's input.
struct FeatureConfig {
  std::string name;
  std::string column;  // Default: name. A dense column may serve too: its text is hashed.
  std::string table;   // Default: name.
  HashStackConfig hash_stack;
  uint32_t table_index = 0;  // Into ClusterConfig::tables; filled by the parser.
};

}  // namespace simurgh
