#include "services/nn_worker/saved_model.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "services/embedding_ps/row_loader.h"
#include "services/nn_worker/probe.h"
#include "simurgh/model/table_reader.h"

namespace simurgh {
namespace {

StatusOr<std::string> TextOf(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.manifest.extra.find(name);
  if (found != checkpoint.manifest.extra.end()) return found->second;
  return absl::DataLossError(absl::StrCat(checkpoint.Path("manifest.json"), ": extra.", name,
                                          " is missing; use a checkpoint of this program"));
}

// Replaces what belongs to the training's machines. Keys that need a file get one that exists; it
// is not read.
std::vector<std::string> LocalOverrides(const Checkpoint& checkpoint, uint32_t threads) {
  const std::string path = std::filesystem::absolute(checkpoint.Path("manifest.json")).string();
  const std::string file =
      absl::StrCat("\"", absl::StrReplaceAll(path, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
  return {absl::StrCat("cluster.token_file=", file),
          absl::StrCat("data.train=[", file, "]"),
          absl::StrCat("data.validation=[", file, "]"),
          absl::StrCat("data.test=[", file, "]"),
          "rpc={}",
          "loaders={}",
          absl::StrCat("embedding_ps={instances: [{address: \"unix:///embedding-ps\"}], "
                       "partitions: ",
                       threads, "}"),
          "embedding_worker.instances=[{address: \"unix:///embedding-worker\"}]",
          absl::StrCat("embedding_worker.threads=", threads),
          "nn_worker.instances=[{address: \"unix:///nn-worker\"}]",
          absl::StrCat("nn_worker.threads=", threads)};
}

}  // namespace

StatusOr<ClusterConfig> SavedConfig(const Checkpoint& checkpoint, uint32_t threads,
                                    const std::vector<std::string>& own) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string yaml, TextOf(checkpoint, "yaml"));
  SIMURGH_ASSIGN_OR_RETURN(const std::string path, TextOf(checkpoint, "yaml.path"));
  SIMURGH_ASSIGN_OR_RETURN(const std::string saved, TextOf(checkpoint, "yaml.overrides"));
  std::vector<std::string> overrides = absl::StrSplit(saved, '\n', absl::SkipEmpty());
  const std::vector<std::string> local = LocalOverrides(checkpoint, threads);
  overrides.insert(overrides.end(), local.begin(), local.end());
  overrides.insert(overrides.end(), own.begin(), own.end());
  StatusOr<ClusterConfig> parsed = ParseClusterConfig(yaml, path, overrides);
  if (!parsed.ok()) {
    return Annotate(parsed.status(), absl::StrCat("the model's configuration, from ", path));
  }
  ClusterConfig config = *std::move(parsed);
  config.data.bad_rows = DataConfig::BadRows::kSkip;
  config.data.max_bad_rows = std::numeric_limits<uint64_t>::max();
  config.nn_worker.device = ComputeDevice::kAuto;
  config.checkpoint = {};
  return config;
}

StatusOr<std::unique_ptr<SavedModel>> SavedModel::Load(const Checkpoint& checkpoint,
                                                       uint32_t threads,
                                                       const std::vector<std::string>& overrides,
                                                       LoadProgress progress) {
  SIMURGH_ASSIGN_OR_RETURN(ClusterConfig config, SavedConfig(checkpoint, threads, overrides));
  // A partition has room for all rows, so that none is evicted.
  const std::vector<std::string> saved_tables = TableReader::TablesOf(checkpoint.manifest);
  for (TableConfig& table : config.tables) {
    uint64_t rows = 0;
    if (std::ranges::binary_search(saved_tables, table.name)) {
      SIMURGH_ASSIGN_OR_RETURN(const TableReader reader, TableReader::Open(checkpoint, table.name));
      rows = reader.rows();
    }
    table.capacity_rows = std::max<uint64_t>(rows, 1) * threads;
    table.capacity_bytes = 0;
  }
  std::unique_ptr<SavedModel> model(new SavedModel(std::move(config)));
  SIMURGH_ASSIGN_OR_RETURN(
      model->job_, TrainingJob::Create(model->config_, model->registry_, /*rank=*/0, &checkpoint));
  SIMURGH_ASSIGN_OR_RETURN(model->cluster_,
                           LocalCluster::Create(model->config_, model->registry_, model->rates_));
  SIMURGH_RETURN_IF_ERROR(model->cluster_->LoadRows(checkpoint, progress));
  SIMURGH_RETURN_IF_ERROR(CheckProbe(checkpoint, *model->job_, *model->cluster_));
  return model;
}

StatusOr<EvaluationResult> SavedModel::Predict(const std::string& file, ReadOptions reading,
                                               bool evaluates, PredictionSink sink) {
  return job_->Predict(*cluster_, /*run=*/0, /*steps=*/0, {file}, std::move(reading), evaluates,
                       std::move(sink));
}

}  // namespace simurgh
