#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "config/cluster_config.h"
#include "config/map_reader.h"
#include "config/sections.h"
#include "config/statistics.h"

namespace simurgh {
namespace {

bool IsLearningRate(std::string_view key) {
  return key.starts_with("tables.") && (key.ends_with(".optimizer.learning_rate") ||
                                        key.find(".optimizer.schedule.") != key.npos);
}

// The setting of a vocabulary file is its content, which only processes that read the data have.
bool IsVocabularyFile(std::string_view key) { return key.ends_with(".vocabulary_file"); }

bool IsOfCluster(std::string_view key) {
  if (key == "cluster.token_file") return false;  // Machines may keep it in different folders.
  if (IsVocabularyFile(key)) return false;
  return key.starts_with("cluster.") || key == "embedding_ps.instances" ||
         key == "embedding_ps.partitions" || key.starts_with("features") ||
         (key.starts_with("tables") && !IsLearningRate(key));
}

// Returns whether the key says how to reach a stream, in which loaders may differ.
bool IsOfConnection(std::string_view key) {
  return key.starts_with("data.kafka.brokers") || key.starts_with("data.kafka.properties");
}

bool IsOfInput(std::string_view key) {
  static const std::set<std::string_view> of_training{
      "training.batch_size", "training.epochs", "training.drop_last", "training.keep_negatives"};
  static const std::set<std::string_view> not_of_data{"data.validation",    "data.test",
                                                      "data.max_bad_share", "data.threads",
                                                      "data.replay",        "data.replay_share"};
  if (IsVocabularyFile(key)) return true;
  if (IsOfConnection(key)) return false;
  // The kind of loss decides which labels are numbers.
  if (key.starts_with("model.") && key.ends_with("loss.kind")) return true;
  return key.starts_with("data.") ? !not_of_data.contains(key) : of_training.contains(key);
}

bool IsOfTraining(std::string_view key) {
  // Settings that may differ between ranks.
  static const std::set<std::string_view> not_of_training{
      "training.auc_window_samples", "training.progress_interval", "training.retry_deadline",
      "training.loader_queue_batches", "data.threads"};
  if (IsOfConnection(key)) return false;
  return key.starts_with("data.") || key.starts_with("model.") || key == "loaders.instances" ||
         IsVocabularyFile(key) || IsLearningRate(key) ||
         (key.starts_with("training.") && !not_of_training.contains(key));
}

bool IsOfModel(std::string_view key) {
  static const std::set<std::string_view> single{"cluster.seed", "training.batch_size",
                                                 "training.drop_last", "training.keep_negatives"};
  static const std::set<std::string_view> not_of_data{
      "data.train",     "data.validation", "data.test",       "data.max_bad_share",
      "data.on_change", "data.on_bad_row", "data.csv.strict", "data.csv.header",
      "data.fit_rows",  "data.threads",    "data.replay",     "data.replay_share"};
  if (key == "model.initial_weights") return false;
  const auto has = [key](std::string_view part) { return key.find(part) != key.npos; };
  if (key.starts_with("tables")) {
    return !IsLearningRate(key) && !has(".capacity") && !has(".eviction") && !has(".when_") &&
           !has(".admission") && !has(".initial_rows");
  }
  if (key.starts_with("training.dense_optimizer.")) {
    return !key.ends_with(".learning_rate") && !has(".schedule");
  }
  if (key.starts_with("data.kafka.")) return false;
  if (key.starts_with("data.")) return !not_of_data.contains(key) && !has(".header_name");
  return key.starts_with("features") || key.starts_with("model.") || single.contains(key);
}

ConfigSettings Select(const ClusterConfig& config, bool (*is_selected)(std::string_view)) {
  ConfigSettings selected;
  for (const KnownKey& key : KnownKeys()) {
    if (!is_selected(key.key) || key.fallback.starts_with("required")) continue;
    selected.emplace(key.key, key.fallback);
  }
  for (const auto& [key, value] : config.settings) {
    if (is_selected(key)) selected[key] = value;
  }
  return selected;
}

std::string Text(const ConfigSettings& settings) {
  return absl::StrJoin(settings, "", [](std::string* text, const auto& setting) {
    absl::StrAppend(text, setting.first, " = ", setting.second, "\n");
  });
}

std::string NumbersText(const std::vector<double>& numbers) {
  return RecordedText(absl::StrJoin(numbers, ", ", [](std::string* text, double number) {
    absl::StrAppend(text, FormatNumber(number));
  }));
}

void AddPlugin(const std::string& key, const PluginConfig& plugin, ConfigSettings* settings) {
  if (plugin.path.empty()) return;
  std::ifstream file(plugin.path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  (*settings)[absl::StrCat(key, ".plugin.path, content")] = HashText(content);
}

// Adds properties of files and the statistics computed from them.
void AddFiles(const ClusterConfig& config, ConfigSettings* settings) {
  std::vector<uintmax_t> sizes;
  for (const std::string& path : config.data.train) {
    std::error_code error;
    sizes.push_back(std::filesystem::file_size(path, error));
  }
  (*settings)["data.train, sizes"] = RecordedText(absl::StrJoin(sizes, ", "));
  for (const auto& [name, numbers] : StatisticsOf(config.data, config.features)) {
    (*settings)[absl::StrCat("statistics, ", name)] = NumbersText(numbers);
  }
  for (size_t i = 0; i < config.data.derived.size(); ++i) {
    AddPlugin(absl::StrCat("data.derived.", i), config.data.derived[i].plugin, settings);
  }
  for (const FeatureConfig& feature : config.features) {
    AddPlugin(feature.key, feature.processing.plugin, settings);
  }
}

}  // namespace

std::string DescribeScopes() {
  std::string text;
  for (const KnownKey& key : KnownKeys()) {
    text += key.key;
    const size_t end = text.size();
    if (IsOfCluster(key.key)) text += " cluster";
    if (IsOfInput(key.key)) text += " input";
    if (IsOfTraining(key.key)) text += " training";
    if (IsOfModel(key.key)) text += " model";
    text += text.size() == end ? " none\n" : "\n";
  }
  return text;
}

std::string ClusterAgreement(const ClusterConfig& config) {
  return Text(Select(config, IsOfCluster));
}

std::string InputAgreement(const ClusterConfig& config) {
  ConfigSettings settings = Select(config, IsOfInput);
  AddFiles(config, &settings);
  return Text(settings);
}

std::string ModelAgreement(const ClusterConfig& config) { return Text(Select(config, IsOfModel)); }

std::string ModelAgreement(const ClusterConfig& config, const std::string& saved) {
  ConfigSettings settings = Select(config, IsOfModel);
  const std::string lines = "\n" + saved;
  for (const KnownKey& key : KnownKeys()) {
    const auto found = settings.find(key.key);
    if (found == settings.end() || found->second != key.fallback) continue;
    if (!absl::StrContains(lines, absl::StrCat("\n", key.key, " = "))) settings.erase(found);
  }
  return Text(settings);
}

std::string TrainingAgreement(const ClusterConfig& config) {
  ConfigSettings settings = Select(config, IsOfTraining);
  AddFiles(config, &settings);
  return Text(settings);
}

}  // namespace simurgh
