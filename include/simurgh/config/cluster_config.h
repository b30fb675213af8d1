#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"
#include "simurgh/config/feature_config.h"
#include "simurgh/config/model_config.h"
#include "simurgh/config/service_config.h"
#include "simurgh/config/table_config.h"
#include "simurgh/config/training_config.h"

namespace simurgh {

// Dotted key -> value as text, of the keys that a file sets to another value than the default.
using ConfigSettings = std::map<std::string, std::string>;

// The configuration of one cluster, read by all daemons. config/README.md describes every key.
struct ClusterConfig {
  std::string name;   // YAML cluster.name
  uint64_t seed = 1;  // YAML cluster.seed: of rows and dense weights.
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
  ConfigSettings settings;  // As read; later changes of the fields above are not in it.

  // Sum over the features of their tables' dims: the width of the network's embedding input.
  size_t embedding_width() const;
};

// Reads, overrides and validates. Each override is "section.key=value" (a list index is a number:
// embedding_ps.instances.0.address=...), applied before validation.
// Errors: NOT_FOUND for the file; INVALID_ARGUMENT for anything wrong in it, data files that cannot
// be read included: up to ten lines "<file>:<line>: <key>: <what>; <remedy>", with "--set
// <override>" in place of file and line for what an override brought in.
// Threads: any.
StatusOr<ClusterConfig> LoadClusterConfig(const std::string& path,
                                          const std::vector<std::string>& overrides);

// The reference of all keys, as Markdown tables: the generated part of config/README.md.
std::string DescribeConfig();

}  // namespace simurgh
