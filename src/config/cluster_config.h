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
  std::string path;  // Absolute path of the file.
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
  ConfigSettings settings;  // The settings as read, without later changes of the fields above.
  ConfigSource source;      // Parsing it gives this configuration, in any working directory.

  // Returns the width of the network's embedding input.
  size_t embedding_width() const;
  // Returns whether a training that has lost a process continues from its last checkpoint.
  bool recovers() const { return !checkpoint.directory.empty(); }
  // Returns whether all ranks read equal numbers of batches, so that they can stop at one step.
  bool reads_in_step() const {
    return training.mode != TrainingConfig::Mode::kAsync || !checkpoint.directory.empty();
  }
};

// Data files, plug-ins and vocabularies, which only nn-workers and loaders read.
enum class InputFiles {
  kCheck,   // They must be readable; vocabularies are read.
  kIgnore,  // They need not exist on this host; vocabularies of files are empty.
};

// Returns the text as a YAML value in quotes, for overrides.
std::string YamlText(std::string_view text);

// Reads the file, applies the overrides and validates. Each override is "section.key=value";
// numbers index lists (embedding_ps.instances.0.address=...). Errors: NOT_FOUND for the file;
// INVALID_ARGUMENT for its content, including files that cannot be read: up to ten lines
// "<file>:<line>: <key>: <what>; <remedy>". Values of overrides have the place "--set <override>".
// place: path of the original of a copied file, for errors and relative paths; empty: `path`.
// Threads: any.
StatusOr<ClusterConfig> LoadClusterConfig(const std::string& path,
                                          const std::vector<std::string>& overrides,
                                          InputFiles files = InputFiles::kCheck,
                                          const std::string& place = "");

// Same as LoadClusterConfig, for a text in memory. path: for errors; relative paths start in its
// folder.
StatusOr<ClusterConfig> ParseClusterConfig(const std::string& text, const std::string& path,
                                           const std::vector<std::string>& overrides,
                                           InputFiles files = InputFiles::kCheck);

// Returns the reference of all keys, as Markdown tables: the generated part of config/README.md.
std::string DescribeConfig();

// Returns the JSON Schema (draft 2020-12) of a cluster file: types, ranges, words, defaults,
// descriptions and required keys. The parser checks the rules that concern several keys, except
// which of a few keys must be given.
std::string ConfigSchema();

// Settings that the processes of a cluster must share, defaults included, as lines "key = value"
// for SettingsDifference. Folders may differ between machines, so files count by name.

// Returns the settings that all daemons share: cluster, tables without learning rates, features,
// the numbers of servers and partitions. LoadClusterConfig limits them to kMaxAgreementBytes.
std::string ClusterAgreement(const ClusterConfig& config);
inline constexpr size_t kMaxAgreementBytes = size_t{256} << 10;

// Returns the settings that loaders and ranks share: those that determine the batches of the
// training files, with the sizes of these files, the contents of plug-ins and the statistics.
// Requires fitted statistics. Cost: reads the plug-ins' files.
std::string InputAgreement(const ClusterConfig& config);

// Returns the settings that ranks share: InputAgreement, model, training, learning rates and the
// number of loaders.
std::string TrainingAgreement(const ClusterConfig& config);

// Returns the settings that a training which continues from a model shares with the training that
// saved it: tables, features, data processing, model, dense optimizer and batches. Learning rates,
// capacities, files, lengths of training and numbers of processes may differ.
std::string ModelAgreement(const ClusterConfig& config);
// Leaves out defaults of keys that `saved`, the agreement of an older program, lacks.
std::string ModelAgreement(const ClusterConfig& config, const std::string& saved);

}  // namespace simurgh
