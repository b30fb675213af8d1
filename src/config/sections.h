#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/cluster_config.h"
#include "config/diagnostics.h"
#include "config/feature_config.h"
#include "config/map_reader.h"
#include "config/serving_config.h"

namespace simurgh {

// Bounds of the times that a daemon waits for another program.
inline constexpr std::chrono::milliseconds kShortest{1};
inline constexpr std::chrono::milliseconds kLongest = std::chrono::minutes(60);

// Most experts of a mixture.
inline constexpr uint32_t kMaxExperts = 64;

// Reads `plugin` of a feature or derived column; resolves its path in `folder`. max_ids: or null.
void ReadPlugin(MapReader& in, const std::string& folder, PluginConfig* plugin, uint32_t* max_ids);

// Reads the keys of the steps from cells to ids; resolves paths in `folder`.
void ReadProcessing(MapReader& in, const std::string& folder, bool is_crossed,
                    ProcessingConfig* processing);

// Returns the text of a YAML file or pipe. Errors: NOT_FOUND, INVALID_ARGUMENT, with the path.
StatusOr<std::string> ReadConfigFile(const std::string& path);

// Returns all keys in the order of reading. alternatives: see ReadContext; may be null.
std::vector<KnownKey> KnownKeys(
    std::map<std::string, std::vector<std::string>>* alternatives = nullptr);

struct ModelShorthand;

// One function per section. `root` reads the whole document.
void ReadCluster(MapReader& root, const std::string& folder, ClusterConfig* config);
// Paths are resolved in `folder`; each file must be readable.
void ReadServices(MapReader& root, const std::string& folder, ClusterConfig* config);
// Parts of the two above, for programs outside a cluster.
void ReadRpcToken(MapReader& cluster, const std::string& folder, RpcConfig* rpc);
void ReadRpc(MapReader& root, const std::string& folder, RpcConfig* rpc);
void CheckRpc(const RpcConfig& rpc, Diagnostics* diagnostics);
// An entry can define several tables. paths: the key with the name of each table. Files of rows
// need not exist.
void ReadTables(MapReader& root, const std::string& folder, std::vector<TableConfig>* tables,
                std::vector<std::string>* paths);
// Paths are resolved in `folder`.
void ReadFeatures(MapReader& root, const std::string& folder, std::vector<FeatureConfig>* features);
void ReadData(MapReader& root, const std::string& folder, DataConfig* data);
// Moves the columns of older files, in data.csv, to data.
void MoveColumns(YamlNode* document);
// Replaces `items: FILE`, or a list of files, by `items: {files: [FILE]}`.
void ExpandItems(YamlNode* document);
// shorthand: a model for ExpandModel. The file of weights need not exist.
void ReadModel(MapReader& root, const std::string& folder, ModelConfig* model,
               ModelShorthand* shorthand);
// ftrl: whether the optimizer divides by the rate, which then must not become 0.
void ReadLearningRateSchedule(MapReader& in, bool ftrl, LearningRateSchedule* schedule);
// Reads a metric that ApplyBest chooses if the key is absent.
void ReadMetric(MapReader& in, const std::string& key, const std::string& meaning,
                std::optional<EvaluationMetric>* metric);
// Requires the services and data.
void ReadTraining(MapReader& root, const std::string& folder, ClusterConfig* config);
// The folder is resolved in `folder` and need not exist.
void ReadCheckpoint(MapReader& root, const std::string& folder, CheckpointConfig* checkpoint);
// Paths are resolved in `folder`; the files need not exist.
void ReadServing(MapReader& root, const std::string& folder, ServingConfig* config);
// Checks the section of `simurgh tune`, which this program does not use.
void CheckTune(MapReader& root);

// Adds a feature, in front, for each id column of CSV that no feature and no derived column reads;
// without features, for each id column of Criteo.
void AddColumnFeatures(ReadContext* context, ClusterConfig* config);
// Adds a table with default settings for each feature that names none. paths: gets the key of the
// name of each new table.
void AddTables(ReadContext* context, ClusterConfig* config, std::vector<std::string>* paths);
// Returns the number of features whose rows are vectors; that of all features if none has such.
size_t VectorFeatures(const ClusterConfig& config);
// Makes the defaults of tables smaller with many features. Requires all tables but those of
// AddFirstOrder.
void ScaleTables(const ReadContext& context, ClusterConfig* config);

// Checks across sections. They require sections without errors.
void CheckServices(const ClusterConfig& config, Diagnostics* diagnostics);
void CheckColumns(const ClusterConfig& config, Diagnostics* diagnostics);
// Makes one task per label column, in order.
void LinkTasks(ClusterConfig* config, Diagnostics* diagnostics);
// Requires a model given as towers.
void CheckModel(const ClusterConfig& config, Diagnostics* diagnostics);
// Checks what the loss in_batch_softmax needs, if the model has it. Requires valid towers.
void CheckInBatch(const ClusterConfig& config, Diagnostics* diagnostics);
// Checks data.items, and sets the column of its ids. Requires valid towers.
void LinkItems(ClusterConfig* config, Diagnostics* diagnostics);
// Switches off what `mode: sync` excludes, so that one key changes the mode.
void ApplyMode(ClusterConfig* config);
// Loaders read a stream: adds one, and an address where it finds the nn-worker.
void ApplyStream(ClusterConfig* config);
// Decides keep_best and best_by of the checkpoints, and the metric of early stopping. Requires
// tasks.
void ApplyBest(ClusterConfig* config);
void CheckTraining(const ClusterConfig& config, Diagnostics* diagnostics);
void CheckWidths(const ClusterConfig& config, Diagnostics* diagnostics);
// Checks the features and their tables. Sets every feature's table_index.
void LinkFeatures(const std::vector<std::string>& table_paths, ClusterConfig* config,
                  Diagnostics* diagnostics);

// Returns the width of the network's dense input: dense columns and masks of raw features.
size_t DenseWidth(const ClusterConfig& config);

}  // namespace simurgh
