#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "simurgh/config/statistics.h"
#include "simurgh/serve/model_version.h"

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
std::vector<std::string> LocalOverrides(const Checkpoint& checkpoint) {
  const std::string path = std::filesystem::absolute(checkpoint.Path("manifest.json")).string();
  const std::string file =
      absl::StrCat("\"", absl::StrReplaceAll(path, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
  return {absl::StrCat("cluster.token_file=", file),
          absl::StrCat("data.train=[", file, "]"),
          absl::StrCat("data.validation=[", file, "]"),
          absl::StrCat("data.test=[", file, "]"),
          "rpc={}",
          "loaders={}",
          "embedding_ps={instances: [{address: \"unix:///embedding-ps\"}]}",
          "embedding_worker.instances=[{address: \"unix:///embedding-worker\"}]",
          "nn_worker.instances=[{address: \"unix:///nn-worker\"}]"};
}

}  // namespace

StatusOr<ClusterConfig> ConfigOfModel(const Checkpoint& checkpoint,
                                      const std::vector<std::string>& overrides) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string yaml, TextOf(checkpoint, "yaml"));
  SIMURGH_ASSIGN_OR_RETURN(const std::string path, TextOf(checkpoint, "yaml.path"));
  SIMURGH_ASSIGN_OR_RETURN(const std::string saved, TextOf(checkpoint, "yaml.overrides"));
  std::vector<std::string> all = absl::StrSplit(saved, '\n', absl::SkipEmpty());
  const std::vector<std::string> local = LocalOverrides(checkpoint);
  all.insert(all.end(), local.begin(), local.end());
  all.insert(all.end(), overrides.begin(), overrides.end());
  StatusOr<ClusterConfig> parsed = ParseClusterConfig(yaml, path, all);
  if (!parsed.ok()) {
    return Annotate(parsed.status(), absl::StrCat("the model's configuration, from ", path));
  }
  ClusterConfig config = *std::move(parsed);
  config.checkpoint = {};
  SIMURGH_RETURN_IF_ERROR(
      ApplyStatistics(checkpoint.manifest.statistics, config.data, config.features));
  return config;
}

}  // namespace simurgh
