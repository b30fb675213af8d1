#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "config/feature_config.h"
#include "config/model_config.h"
#include "config/service_config.h"
#include "config/table_config.h"
#include "config/training_config.h"

namespace simurgh {

// Dotted key -> value as text, for keys with other values than the defaults.
using ConfigSettings = std::map<std::string, std::string>;

// Arguments of ParseClusterConfig. Files that the text names may have changed since.
struct ConfigSource {
  std::string text;
  std::string path;  // Absolute.
  std::vector<std::string> overrides;
};

// The configuration of one cluster, read by all daemons. config/README.md describes every key.
struct ClusterConfig {
  std::string name = "simurgh";  // YAML cluster.name
  uint64_t seed = 1;             // YAML cluster.seed
  EmbeddingPsConfig embedding_ps;
  EmbeddingWorkerConfig embedding_worker;
  NnWorkerConfig nn_worker;
  LoadersConfig loaders;
  RpcConfig rpc;
  std::vector<TableConfig> tables;
  std::vector<FeatureConfig> features;
  DataConfig data;
  ModelConfig model;
  TrainingConfig training;
  CheckpointConfig checkpoint;
  ConfigSettings settings;  // As read, without later changes of the fields above.
  ConfigSource source;      // Parses to this configuration, in any working directory.

  // Width of the network's embedding input.
  size_t embedding_width() const;
  // Whether a training that has lost a process continues from its last checkpoint.
  bool recovers() const { return !checkpoint.directory.empty(); }
  // Whether all ranks read equal numbers of batches, so that they can stop at the same step.
  bool reads_in_step() const {
    return training.mode != TrainingConfig::Mode::kAsync || !checkpoint.directory.empty();
  }
};

// Data files, plug-ins and vocabularies, which only nn-workers and loaders read.
enum class InputFiles {
  kCheck,   // They must be readable; vocabularies are read.
  kIgnore,  // They need not exist on this host; vocabularies of files are empty.
};

// A text as a value of YAML, in quotes, for overrides.
std::string YamlText(std::string_view text);

// Reads the file, applies the overrides and validates. Each override is "section.key=value";
// numbers index lists (embedding_ps.instances.0.address=...). Errors: NOT_FOUND for the file;
// INVALID_ARGUMENT for its content, including files that cannot be read: up to ten lines
// "<file>:<line>: <key>: <what>; <remedy>". Values of overrides have the place "--set <override>".
// place: of a copied file, the path that errors and relative paths in it refer to; empty: `path`.
// Threads: any.
StatusOr<ClusterConfig> LoadClusterConfig(const std::string& path,
                                          const std::vector<std::string>& overrides,
                                          InputFiles files = InputFiles::kCheck,
                                          const std::string& place = "");

// LoadClusterConfig for a text in memory. path: for errors; relative paths start in its folder.
StatusOr<ClusterConfig> ParseClusterConfig(const std::string& text, const std::string& path,
                                           const std::vector<std::string>& overrides,
                                           InputFiles files = InputFiles::kCheck);

// The reference of all keys, as Markdown tables: the generated part of config/README.md.
std::string DescribeConfig();

// The JSON Schema (draft 2020-12) of a cluster file: types, ranges, words, defaults, descriptions
// and required keys. Rules that concern several keys are left to the parser, except which of a few
// keys must be given.
std::string ConfigSchema();

// Settings that the processes of a cluster must share, defaults included, as lines "key = value"
// for SettingsDifference. Folders may differ between machines, so files count by name.

// All daemons: cluster, tables without learning rates, features, the numbers of servers and
// partitions. At most kMaxAgreementBytes, as LoadClusterConfig checks.
std::string ClusterAgreement(const ClusterConfig& config);
inline constexpr size_t kMaxAgreementBytes = size_t{256} << 10;

// Also loaders and ranks: settings that determine the batches of the training files, with the sizes
// of these files, the contents of plug-ins and the statistics. Requires fitted statistics.
// Cost: reads the plug-ins' files.
std::string InputAgreement(const ClusterConfig& config);

// Also ranks: InputAgreement, model, training, learning rates and the number of loaders.
std::string TrainingAgreement(const ClusterConfig& config);

// Settings that training which continues from a model shares with the training that saved it:
// tables, features, data processing, model, dense optimizer and batches. Not learning rates,
// capacities, files, lengths of training and numbers of processes.
std::string ModelAgreement(const ClusterConfig& config);
// The same without defaults of keys that `saved` lacks: the agreement of an older program.
std::string ModelAgreement(const ClusterConfig& config, const std::string& saved);

}  // namespace simurgh
