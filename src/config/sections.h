#pragma once

#include <string>
#include <vector>

#include "config/diagnostics.h"
#include "config/map_reader.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {

struct ModelShorthand;

// One function a section of the YAML: what it takes, key by key. `root` reads the whole document.
void ReadCluster(MapReader& root, ClusterConfig* config);
// Paths of files are made relative to `folder`, and each file must be readable.
void ReadServices(MapReader& root, const std::string& folder, ClusterConfig* config);
// An entry of the YAML may make several tables; `paths` gets the key that names each one.
void ReadTables(MapReader& root, std::vector<TableConfig>* tables, std::vector<std::string>* paths);
// Paths of files as above.
void ReadFeatures(MapReader& root, const std::string& folder, std::vector<FeatureConfig>* features);
void ReadData(MapReader& root, const std::string& folder, DataConfig* data);
// A model in short form is kept until ExpandModel.
void ReadModel(MapReader& root, ModelConfig* model, ModelShorthand* shorthand);
void ReadTraining(MapReader& root, TrainingConfig* training);

// What can only be judged once all sections are read. They expect sections without errors.
void CheckServices(const ClusterConfig& config, Diagnostics* diagnostics);
void CheckColumns(const ClusterConfig& config, Diagnostics* diagnostics);
// One task a label column, in their order.
void LinkTasks(ClusterConfig* config, Diagnostics* diagnostics);
// Of a model given as towers.
void CheckModel(const ClusterConfig& config, Diagnostics* diagnostics);
// What `mode: sync` rules out is off then, whatever its own keys say: one key switches modes.
void ApplyMode(ClusterConfig* config);
void CheckTraining(const ClusterConfig& config, Diagnostics* diagnostics);
void CheckWidths(const ClusterConfig& config, Diagnostics* diagnostics);
// Also sets every feature's table_index.
void LinkFeatures(const std::vector<std::string>& table_paths, ClusterConfig* config,
                  Diagnostics* diagnostics);

// Columns of the network's dense input: of the data, and masks of raw features.
size_t DenseWidth(const ClusterConfig& config);

}  // namespace simurgh
