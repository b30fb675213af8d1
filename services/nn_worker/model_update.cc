#include "services/nn_worker/model_update.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/log.h"
#include "base/status.h"
#include "model/model_directory.h"

namespace simurgh {
namespace {

constexpr std::string_view kPrefix = "update.";
constexpr char kId[] = "update.id";
constexpr char kDone[] = "update.done";
constexpr char kFiles[] = "update.files";
constexpr char kPaths[] = "update.paths";
constexpr char kPosition[] = "update.position";
constexpr char kTested[] = "update.tested";
constexpr char kTrained[] = "update.trained";
// Most files that are remembered, an amount far below Manifest::kMaxBytes. An older file counts as
// new.
constexpr size_t kMostFiles = 50'000;

std::string TextOf(const Manifest& manifest, const char* key) {
  const auto found = manifest.extra.find(key);
  return found == manifest.extra.end() ? "" : found->second;
}

}  // namespace

StatusOr<std::optional<ModelUpdate>> ReadUpdate(const Manifest& manifest) {
  if (!manifest.extra.contains(kId)) return std::nullopt;
  ModelUpdate update{.id = TextOf(manifest, kId),
                     .is_done = TextOf(manifest, kDone) == "1",
                     .files = {},
                     .paths = absl::StrSplit(TextOf(manifest, kPaths), '\n', absl::SkipEmpty()),
                     .position = {},
                     .tested = TextOf(manifest, kTested),
                     .trained = {}};
  const auto read = [&]() -> Status {
    SIMURGH_ASSIGN_OR_RETURN(update.files, DataFilesFromText(TextOf(manifest, kFiles)));
    SIMURGH_ASSIGN_OR_RETURN(update.trained, DataFilesFromText(TextOf(manifest, kTrained)));
    if (update.is_done) return absl::OkStatus();
    SIMURGH_ASSIGN_OR_RETURN(update.position, DataPosition::FromText(TextOf(manifest, kPosition)));
    return absl::OkStatus();
  };
  SIMURGH_RETURN_IF_ERROR(Annotate(read(), "manifest.json: extra.update"));
  return update;
}

void WriteUpdate(const ModelUpdate& update, Manifest& manifest) {
  const size_t most = std::min(update.trained.size(), kMostFiles);
  manifest.extra[kId] = update.id;
  manifest.extra[kDone] = update.is_done ? "1" : "0";
  manifest.extra[kFiles] = DataFilesText(update.files);
  manifest.extra[kPaths] = update.is_done ? "" : absl::StrJoin(update.paths, "\n");
  manifest.extra[kPosition] = update.is_done ? "" : update.position.ToText();
  manifest.extra[kTested] = update.tested;
  manifest.extra[kTrained] = DataFilesText(
      {update.trained.end() - static_cast<std::ptrdiff_t>(most), update.trained.end()});
}

std::vector<DataFile> TrainedFiles(const ModelUpdate& update) {
  std::vector<DataFile> trained = update.trained;
  const size_t read = update.is_done
                          ? update.files.size()
                          : std::min<size_t>(update.position.files(), update.files.size());
  trained.insert(trained.end(), update.files.begin(),
                 update.files.begin() + static_cast<std::ptrdiff_t>(read));
  return trained;
}

void CopyUpdate(const Manifest& from, Manifest& to) {
  for (const auto& [key, text] : from.extra) {
    if (key.starts_with(kPrefix)) to.extra[key] = text;
  }
}

bool HaveSameUpdate(const Manifest& a, const Manifest& b) {
  return TextOf(a, kId) == TextOf(b, kId);
}

void KeepCapacities(const ClusterConfig& config, Manifest& manifest) {
  const auto is_capacity = [](std::string_view text) {
    return text.starts_with("tables.") &&
           text.substr(0, text.find('=')).find(".capacity_rows") != text.npos;
  };
  std::string& text = manifest.extra["yaml.overrides"];
  std::vector<std::string> overrides = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& override : config.source.overrides) {
    if (!is_capacity(override)) continue;
    std::erase(overrides, override);
    overrides.push_back(override);
  }
  text = absl::StrJoin(overrides, "\n");
  for (auto& [key, value] : manifest.config) {
    const auto found = config.settings.find(key);
    if (is_capacity(key) && found != config.settings.end()) value = found->second;
  }
}

Status WithRemedy(const DataConfig& data, const Status& status) {
  if (!absl::IsInvalidArgument(status) || data.on_bad_row == DataConfig::OnBadRow::kSkip) {
    return status;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(status.message(), "; --set data.on_bad_row=skip leaves bad rows out"));
}

StatusOr<ResumePoint> FindUpdatePoint(const ClusterConfig& config, const std::string& id,
                                      bool* is_newest) {
  ModelDirectory directory(config.checkpoint.directory);
  SIMURGH_ASSIGN_OR_RETURN(ModelDirectory::Newest newest, directory.Latest());
  for (const std::string& warning : newest.warnings) spdlog::warn("{}", warning);
  Checkpoint checkpoint = std::move(newest.checkpoint);
  *is_newest = true;
  if (TextOf(checkpoint.manifest, kId) != id) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> best, directory.BestStep());
    if (best && *best != checkpoint.manifest.step) {
      StatusOr<Checkpoint> opened = directory.Open(*best);
      if (!opened.ok()) return Annotate(opened.status(), "the best checkpoint");
      // The training keeps its position, which is after the best checkpoint.
      opened->manifest.position = checkpoint.manifest.position;
      for (const char* const key :
           {"train.epochs", "train.files", "train.no_better", "train.stopped_early"}) {
        opened->manifest.extra[key] = TextOf(checkpoint.manifest, key);
      }
      checkpoint = *std::move(opened);
      *is_newest = false;
    }
  }
  SIMURGH_RETURN_IF_ERROR(
      CheckFits(checkpoint, config, {"data.format", "data.csv.", "data.missing_values"}));
  return ResumePoint{directory.path(), std::move(checkpoint)};
}

Status BeginUpdate(const Manifest& manifest, const std::string& id, TrainState& state) {
  state.epochs = 0;
  state.position = {};
  state.files.clear();
  state.stopping = {};
  state.stopped_early = false;
  SIMURGH_ASSIGN_OR_RETURN(std::optional<ModelUpdate> update, ReadUpdate(manifest));
  if (!update || update->id != id) return absl::OkStatus();
  state.stopped_early = update->is_done;  // A start after the end has no rows to train on.
  if (!update->is_done) state.position = std::move(update->position);
  state.files = std::move(update->files);
  return absl::OkStatus();
}

}  // namespace simurgh
