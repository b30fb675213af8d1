#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "config/cluster_config.h"
#include "config/map_reader.h"
#include "config/sections.h"
#include "config/statistics.h"

namespace simurgh {
namespace {

// Raise it where a daemon would misread calls of an older or newer one.
constexpr char kCallsVersion[] = "2";

// Returns the scope of a setting. A part of the value of a key has the scope of that key, a mapping
// that of its keys.
Scope ScopeOf(const std::string& setting, const std::map<std::string, Scope>& scopes) {
  std::string key = WithoutIndexes(setting.substr(0, setting.find(',')));
  const auto next = scopes.lower_bound(key);
  if (next != scopes.end() && next->first.starts_with(key + ".")) return next->second;
  while (!scopes.contains(key)) {
    const size_t end = key.rfind('.');
    SIMURGH_CHECK(end != key.npos) << setting;
    key.resize(end);
  }
  return scopes.at(key);
}

// Returns the settings that all of `scope` must agree on.
ConfigSettings Select(const ClusterConfig& config, Scope scope) {
  ConfigSettings selected;
  std::map<std::string, Scope> scopes;
  for (const KnownKey& key : KnownKeys()) {
    scopes.emplace(key.key, key.scope);
    if (!Includes(key.scope, scope) || key.fallback.starts_with("required")) continue;
    selected.emplace(key.key, key.fallback);
  }
  for (const auto& [key, value] : config.settings) {
    if (Includes(ScopeOf(key, scopes), scope)) selected[key] = value;
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

std::string ClusterAgreement(const ClusterConfig& config) {
  ConfigSettings settings = Select(config, Scope::kCluster);
  settings["version of the daemons' calls"] = kCallsVersion;
  return Text(settings);
}

std::string InputAgreement(const ClusterConfig& config) {
  ConfigSettings settings = Select(config, Scope::kInput);
  AddFiles(config, &settings);
  return Text(settings);
}

std::string ModelAgreement(const ClusterConfig& config) {
  return Text(Select(config, Scope::kModel));
}

std::string ModelAgreement(const ClusterConfig& config, const std::string& saved) {
  ConfigSettings settings = Select(config, Scope::kModel);
  const std::string lines = "\n" + saved;
  for (const KnownKey& key : KnownKeys()) {
    const auto found = settings.find(key.key);
    if (found == settings.end() || found->second != key.fallback) continue;
    if (!absl::StrContains(lines, absl::StrCat("\n", key.key, " = "))) settings.erase(found);
  }
  return Text(settings);
}

std::string TrainingAgreement(const ClusterConfig& config) {
  ConfigSettings settings = Select(config, Scope::kTraining);
  AddFiles(config, &settings);
  return Text(settings);
}

}  // namespace simurgh
