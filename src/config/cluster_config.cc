#include "config/cluster_config.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "base/file_descriptor.h"
#include "base/log.h"
#include "config/model_shorthand.h"
#include "config/sections.h"
#include "config/yaml_node.h"

namespace simurgh {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

// Reads all sections. Returns the paths of the tables for LinkFeatures.
std::vector<std::string> ReadSections(const YamlNode& document, const std::string& folder,
                                      ReadContext* context, ClusterConfig* config,
                                      ModelShorthand* shorthand) {
  std::vector<std::string> table_paths;
  MapReader::Read(&document, "", context, [&](MapReader& root) {
    ReadCluster(root, folder, config);
    ReadServices(root, folder, config);
    ReadTables(root, folder, &config->tables, &table_paths);
    ReadFeatures(root, folder, &config->features);
    ReadData(root, folder, &config->data);
    ReadModel(root, folder, &config->model, shorthand);
    ReadTraining(root, folder, config);
    ReadCheckpoint(root, folder, &config->checkpoint);
    ServingConfig unused;  // The section of another program is only checked.
    ReadServing(root, folder, &unused);
    CheckTune(root);
  });
  return table_paths;
}

Status TooLong(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": more than ", kMaxFileBytes, " bytes; is this a YAML file of Simurgh?"));
}

Status CannotOpen(const std::string& path) {
  return absl::NotFoundError(
      absl::StrCat(path, ": ", std::strerror(errno), "; give the path of a YAML file"));
}

// Reads a pipe, as of /dev/stdin or a shell's <(command), until its writers have closed it.
StatusOr<std::string> ReadPipe(const std::string& path) {
  constexpr int kSilentMilliseconds = 2'000;
  // O_NONBLOCK: open() does not wait for a writer.
  const FileDescriptor pipe(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!pipe.valid()) return CannotOpen(path);
  std::string text;
  char buffer[4096];
  for (bool silent = true; text.size() <= kMaxFileBytes;) {
    // A pipe without a writer so far reports nothing, and afterwards its end.
    pollfd readable{.fd = pipe.number(), .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, silent ? kSilentMilliseconds : -1) == 0) {
      silent = false;
      spdlog::warn("{}: waiting for the end of the configuration; it is a pipe or a terminal",
                   path);
      continue;
    }
    const ssize_t bytes = read(pipe.number(), buffer, sizeof(buffer));
    if (bytes == 0) return text;
    if (bytes > 0) text.append(buffer, static_cast<size_t>(bytes));
    if (bytes < 0 && errno != EAGAIN && errno != EINTR) return CannotOpen(path);
  }
  return TooLong(path);
}

// `tables.N` for `tables.N.dim`; `tables` for itself.
std::string GroupOf(const std::string& key) { return key.substr(0, key.rfind('.')); }

// Formats values as code, descriptions as text.
std::string Default(const KnownKey& key) {
  const std::string& text = key.fallback;
  const bool is_value = text.find(' ') == text.npos || text.front() == '[';
  const bool is_absent = text == "none" && !key.type.starts_with("one of none");
  if (!is_value || text == "required" || is_absent) return text;
  return absl::StrCat("`", text, "`");
}

}  // namespace

StatusOr<std::string> ReadConfigFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a folder; name a YAML file in it"));
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return ReadPipe(path);
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CannotOpen(path);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be read completely; check the disk"));
  }
  if (text.size() > kMaxFileBytes) return TooLong(path);
  return text;
}

size_t ClusterConfig::embedding_width() const {
  size_t width = 0;
  for (const FeatureConfig& feature : features) {
    width += feature.width(tables[feature.table_index].dim);
  }
  return width;
}

StatusOr<ClusterConfig> ParseClusterConfig(const std::string& text, const std::string& path,
                                           const std::vector<std::string>& overrides,
                                           InputFiles files) {
  SIMURGH_ASSIGN_OR_RETURN(
      YamlNode document, ParseYaml(text, [&](int line) { return absl::StrCat(path, ":", line); }));
  ExpandModelName(&document);
  MoveColumns(&document);
  ExpandItems(&document);
  for (const std::string& override_text : overrides) {
    SIMURGH_RETURN_IF_ERROR(ApplyOverride(override_text, &document));
    ExpandModelName(&document);
    MoveColumns(&document);
    ExpandItems(&document);
  }
  ReadContext context(document);
  context.input_files = files;
  ClusterConfig config;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  ModelShorthand shorthand;
  std::vector<std::string> table_paths =
      ReadSections(document, folder, &context, &config, &shorthand);
  // The checks across sections require valid sections.
  if (context.diagnostics.ok()) {
    ApplyMode(&config);
    ApplyStream(&config);
    LinkTasks(&config, &context.diagnostics);
    ApplyBest(&config);
    CheckServices(config, &context.diagnostics);
    AddColumnFeatures(&context, &config);
    AddTables(&context, &config, &table_paths);
    ScaleTables(context, &config);
    AddFirstOrder(&context, &shorthand, &config, &table_paths);
    LinkFeatures(table_paths, &config, &context.diagnostics);
    CheckColumns(config, &context.diagnostics);
    CheckTraining(config, &context.diagnostics);
    if (shorthand.kind == ModelShorthand::Kind::kNone) {
      CheckModel(config, &context.diagnostics);
    } else if (context.diagnostics.ok()) {
      ExpandModel(shorthand, &config, &context.diagnostics);
    }
    if (context.diagnostics.ok()) CheckInBatch(config, &context.diagnostics);
    if (context.diagnostics.ok()) LinkItems(&config, &context.diagnostics);
  }
  SIMURGH_RETURN_IF_ERROR(context.diagnostics.status());
  context.settings.merge(config.settings);
  config.settings = std::move(context.settings);
  std::error_code error;
  config.source = {text, std::filesystem::absolute(path, error).string(), overrides};
  const size_t bytes = ClusterAgreement(config).size();
  if (bytes > kMaxAgreementBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": settings of tables and features have ", bytes, " bytes; use at most ",
        kMaxAgreementBytes, ", with tables.N.names for equal tables and shorter names"));
  }
  return config;
}

StatusOr<ClusterConfig> LoadClusterConfig(const std::string& path,
                                          const std::vector<std::string>& overrides,
                                          InputFiles files, const std::string& place) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string text, ReadConfigFile(path));
  return ParseClusterConfig(text, place.empty() ? path : place, overrides, files);
}

std::vector<KnownKey> KnownKeys(std::map<std::string, std::vector<std::string>>* alternatives) {
  const YamlNode nothing;
  std::vector<KnownKey> keys;
  ReadContext context(nothing);
  context.known_keys = &keys;
  ClusterConfig unused;
  ModelShorthand unused_shorthand;
  ReadSections(nothing, "", &context, &unused, &unused_shorthand);
  if (alternatives != nullptr) *alternatives = std::move(context.alternatives);
  return keys;
}

std::string YamlText(std::string_view text) {
  const absl::string_view all(text.data(), text.size());
  return absl::StrCat("'", absl::StrReplaceAll(all, {{"'", "''"}}), "'");
}

std::string DescribeConfig() {
  const std::vector<KnownKey> keys = KnownKeys();
  std::vector<std::string> groups;
  for (const KnownKey& key : keys) {
    const std::string group = GroupOf(key.key);
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  std::string text;
  for (const std::string& group : groups) {
    absl::StrAppend(&text, "### ", group,
                    "\n\n| key | type | default | meaning |\n|---|---|---|---|\n");
    for (const KnownKey& key : keys) {
      if (GroupOf(key.key) != group) continue;
      absl::StrAppend(&text, "| `", key.key.substr(key.key.rfind('.') + 1), "` | ", key.type, " | ",
                      Default(key), " | ", key.meaning, " |\n");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace simurgh
