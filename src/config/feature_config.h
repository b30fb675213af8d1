#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace simurgh {

// Maximum number of features of a model.
inline constexpr size_t kMaxFeatures = 4'096;

// A shared object that processes cells; see simurgh/plugin.h.
struct PluginConfig {
  std::string path;  // Path of the shared object; empty: none.
  std::vector<std::string> parameters;
  uint32_t max_ids = 1'024;  // Most ids per sample; features only.
};

// Maps any number of ids to rounds * buckets rows; see src/data/processing/feature_ids.h.
struct HashStackConfig {
  uint32_t rounds = 0;   // 0: off. At most 8.
  uint64_t buckets = 0;  // Rows per round.
};

// Steps from cells to ids, in this order: id by plug-in, boundaries, vocabulary or hash (several
// columns are crossed), modulo, missing, length, hash stack.
struct ProcessingConfig {
  // auto: text for CSV cells; Criteo's ids are numbers, and unchanged without a seed.
  enum class Hash { kAuto, kText, kInteger, kNone };
  enum class Missing { kSkip, kId, kFail };
  enum class Keep { kFirst, kLast };
  enum class Date { kNone, kHour, kWeekday };

  PluginConfig plugin;
  Hash hash = Hash::kAuto;
  uint64_t seed = 0;
  std::vector<double> boundaries;       // Ascending; the id is the number of bounds <= value.
  uint32_t quantiles = 0;               // Ranges with boundaries of FitStatistics; 0: off.
  Date date = Date::kNone;              // A date's id is its hour or weekday; Monday is 0.
  std::vector<std::string> vocabulary;  // The id is the index. From the YAML file or a file of it.
  uint64_t oov_ids = 1;                 // Ids for texts outside the vocabulary; 0: drop them.
  Missing missing = Missing::kSkip;     // Treatment of an empty list.
  uint32_t max_length = 0;              // 0: no limit.
  Keep keep = Keep::kFirst;             // Part kept of a longer list.
  bool pad = false;                     // Fill shorter lists to max_length.
  uint64_t modulo = 0;                  // 0: off.
};

// Combination of the rows of a sample. n is the number of its ids, each the sum of `rows_per_id`
// consecutive occurrences; r_i are the rows of the occurrences and w_i their weights. A sample
// without ids gives zeros. An id that occurs twice counts twice. embedding/pooling.cc computes
// them.
enum class Pooling {
  kSum,          // sum of r_i
  kMean,         // sum of r_i / n
  kSqrtN,        // sum of r_i / sqrt(n)
  kMax,          // maximum of each element, the first of equals; rows_per_id is 1
  kWeightedSum,  // sum of w_i * r_i
  kRaw,          // (length * D): the rows of the first `length` ids, concatenated, then zeros
};

// Names in YAML.
inline constexpr std::pair<const char*, Pooling> kPoolings[] = {
    {"sum", Pooling::kSum},
    {"mean", Pooling::kMean},
    {"sqrt_n", Pooling::kSqrtN},
    {"max", Pooling::kMax},
    {"weighted_sum", Pooling::kWeightedSum},
    {"raw", Pooling::kRaw}};
inline const char* NameOf(Pooling pooling) {
  return std::ranges::find(kPoolings, pooling, [](const auto& one) { return one.second; })->first;
}

// An id feature. YAML section `features`, in the order of the embeddings in the network's input.
struct FeatureConfig {
  std::string name;
  std::string column;  // Default: name. An id or dense column.
  // Two or more columns of a cross or a plug-in, instead of `column`.
  std::vector<std::string> columns;
  std::string table;  // Default: name.
  ProcessingConfig processing;
  HashStackConfig hash_stack;
  Pooling pooling = Pooling::kSum;
  bool mask = false;             // raw: add dense columns that mark filled places.
  char weight_separator = '\0';  // Character between a value and its weight; 0: no weights.
  uint32_t table_index = 0;      // Index in ClusterConfig::tables; set by the parser.
  std::string key = {};          // YAML key, for errors: "features.0", or that of its column.

  std::vector<std::string> sources() const {
    if (!columns.empty()) return columns;
    return {column.empty() ? name : column};
  }

  // Returns the number of columns in the network's embedding input. dim: width of the table's rows.
  uint64_t width(uint32_t dim) const {
    return pooling == Pooling::kRaw ? uint64_t{processing.max_length} * dim : dim;
  }
  // Returns the number of rows of a sample that the network reads side by side; 0: it reads one.
  uint32_t places() const { return pooling == Pooling::kRaw ? processing.max_length : 0; }
  // Returns the number of columns in the network's dense input.
  uint32_t mask_width() const { return mask ? processing.max_length : 0; }
};

}  // namespace simurgh
