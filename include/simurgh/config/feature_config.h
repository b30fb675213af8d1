#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simurgh/config/plugin_config.h"

namespace simurgh {

// Folds any number of ids into rounds * buckets rows; see feature hashing in the reference.
struct HashStackConfig {
  uint32_t rounds = 0;   // 0: off. At most 8.
  uint64_t buckets = 0;  // Rows a round.
};

// How the parts of a cell become ids, in this order: id (by plug-in, boundaries, vocabulary or
// hash; several columns are crossed), modulo, what is missing, length, hash stack.
struct ProcessingConfig {
  // auto: text of CSV cells; Criteo's ids are numbers, and stay what they are without a seed.
  enum class Hash { kAuto, kText, kInteger, kNone };
  enum class Missing { kSkip, kId, kFail };
  enum class Keep { kFirst, kLast };

  PluginConfig plugin;
  Hash hash = Hash::kAuto;
  uint64_t seed = 0;
  std::vector<double> boundaries;  // Ascending: a number's id is how many are at most it.
  uint32_t quantiles = 0;          // Boundaries from a first pass; 0: none.
  // A text's id is its place; from the YAML, or from a file that it names.
  std::vector<std::string> vocabulary;
  uint64_t oov_ids = 1;              // For texts that are not in it; 0: they are dropped.
  Missing missing = Missing::kSkip;  // What an empty list becomes.
  uint32_t max_length = 0;           // Longest list; 0: any.
  Keep keep = Keep::kFirst;          // Of a longer one.
  bool pad = false;                  // Whether shorter ones are filled up to max_length.
  uint64_t modulo = 0;               // 0: off.
};

// How the rows of a sample's ids become the feature's columns; simurgh/data/pooling.h computes.
enum class Pooling { kSum, kMean, kSqrtN, kMax, kWeightedSum, kRaw };

// An ID feature: what the network sees of a column. YAML section `features`; their order is the
// order of the embeddings in the network's input.
struct FeatureConfig {
  std::string name;
  std::string column;  // Default: name. A dense column may serve too.
  // In place of it: two and more, crossed, or handed to a plug-in.
  std::vector<std::string> columns;
  std::string table;  // Default: name.
  ProcessingConfig processing;
  HashStackConfig hash_stack;
  Pooling pooling = Pooling::kSum;
  bool mask = false;             // raw: whether the dense network is told which places are filled.
  char weight_separator = '\0';  // Between a value and its weight; 0: no weights.
  uint32_t table_index = 0;      // Into ClusterConfig::tables; filled by the parser.

  // The columns it reads, one or several.
  std::vector<std::string> sources() const {
    if (!columns.empty()) return columns;
    return {column.empty() ? name : column};
  }

  // Columns in the network's input, where the table's rows have this dim.
  uint64_t width(uint32_t dim) const {
    return pooling == Pooling::kRaw ? uint64_t{processing.max_length} * dim : dim;
  }
  // Columns of its mask in the network's dense input.
  uint32_t mask_width() const { return mask ? processing.max_length : 0; }
};

}  // namespace simurgh
