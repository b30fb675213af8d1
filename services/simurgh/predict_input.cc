#include "services/simurgh/predict_input.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "config/uri.h"

namespace simurgh {
namespace {

using Format = DataConfig::Format;

constexpr std::array<std::pair<const char*, Format>, 10> kEndings = {
    {{".csv", Format::kCsv},
     {".tsv", Format::kCsv},
     {".json", Format::kJson},
     {".jsonl", Format::kJson},
     {".ndjson", Format::kJson},
     {".parquet", Format::kParquet},
     {".pq", Format::kParquet},
     {".arrow", Format::kArrow},
     {".feather", Format::kArrow},
     {".ipc", Format::kArrow}}};

// Values of `data.format`.
constexpr std::array<std::pair<Format, const char*>, 4> kFormats = {{{Format::kCsv, "csv"},
                                                                     {Format::kJson, "json"},
                                                                     {Format::kParquet, "parquet"},
                                                                     {Format::kArrow, "arrow"}}};

// Returns the name without the ending of a compressed file, and without the options of a URI.
std::string_view Uncompressed(std::string_view path) {
  const std::string_view name = WithoutOptions(path);
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

std::optional<Format> FormatOf(std::string_view path) {
  const std::string name(Uncompressed(path));
  for (const auto& [ending, format] : kEndings) {
    if (absl::EndsWithIgnoreCase(name, ending)) return format;
  }
  return std::nullopt;
}

// Returns whether the columns have names, which files of other formats can have, too.
bool HasNamedColumns(Format format) {
  return format == Format::kCsv || format == Format::kJson || format == Format::kParquet ||
         format == Format::kArrow;
}

// Returns the files of a folder, ordered by name, without hidden or unfinished ones of other
// programs.
std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename();
    if (name.starts_with('.') || name.starts_with('_')) continue;
    if (entry.is_regular_file(failed)) files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

StatusOr<std::vector<std::string>> FilesOf(Format format, const std::string& path) {
  if (path == "-") return std::vector<std::string>{"/dev/stdin"};
  std::vector<std::string> files = NamedFiles(format, path);
  std::error_code failed;
  const bool is_folder = std::filesystem::is_directory(path, failed);
  // Parquet may be in folders of a folder.
  if (is_folder && (files.empty() || files.front() == path)) files = FilesIn(path);
  if (is_folder && files.empty()) files = NamedFiles(Format::kParquet, path);
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat("--input ", path, ": the folder has no files of rows"));
  }
  return files;
}

}  // namespace

StatusOr<DataConfig> DataOf(const DataConfig& training, const std::vector<std::string>& files) {
  DataConfig data = training;
  if (!HasNamedColumns(training.format)) return data;
  const auto has_tabs = [](const std::string& file) {
    return absl::EndsWithIgnoreCase(std::string(Uncompressed(file)), ".tsv");
  };
  const auto format_of = [&](const std::string& file) {
    return FormatOf(file).value_or(training.format);
  };
  const std::string& first = files.front();
  for (const std::string& file : files) {
    if (format_of(file) == format_of(first) && has_tabs(file) == has_tabs(first)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(first, " and ", file,
                     " seem to have different formats; name the files of each by themselves"));
  }
  data.format = format_of(first);
  const bool was_csv = training.format == Format::kCsv;
  if (data.format != Format::kCsv || (was_csv && !has_tabs(first))) return data;
  if (!was_csv) data.csv = {.finds_header = true};
  data.csv.separator = has_tabs(first) ? '\t' : ',';
  return data;
}

StatusOr<std::vector<std::string>> FormatOverrides(const DataConfig& training,
                                                   const std::vector<std::string>& files) {
  SIMURGH_ASSIGN_OR_RETURN(const DataConfig data, DataOf(training, files));
  std::vector<std::string> overrides;
  if (data.format != training.format) {
    if (training.format == Format::kCsv) overrides.emplace_back("data.csv={}");
    const auto name =
        std::ranges::find(kFormats, data.format, &std::pair<Format, const char*>::first);
    overrides.push_back(absl::StrCat("data.format=", name->second));
  }
  const bool is_csv = data.format == Format::kCsv;
  if (is_csv && data.csv.separator == '\t' && training.csv.separator != '\t') {
    overrides.emplace_back("data.csv.separator=\"\\t\"");
  }
  return overrides;
}

StatusOr<PredictInput> InputOf(const DataConfig& training, const std::string& path) {
  PredictInput input{.data = training, .files = {}};
  SIMURGH_ASSIGN_OR_RETURN(input.files, FilesOf(training.format, path));
  StatusOr<DataConfig> data = DataOf(training, input.files);
  if (!data.ok()) return Annotate(data.status(), absl::StrCat("--input ", path));
  input.data = *std::move(data);
  return input;
}

std::vector<std::string> OwnNames(std::vector<std::string> names, const DataConfig& data) {
  for (std::string& name : names) {
    if (std::ranges::find(data.columns, name, &ColumnConfig::name) != data.columns.end()) continue;
    for (const ColumnConfig& column : data.columns) {
      if (!absl::EqualsIgnoreCase(name, HeaderName(column))) continue;
      name = column.name;
      break;
    }
  }
  return names;
}

bool AddColumns(const std::vector<std::string>& names, DataConfig& data) {
  if (data.format != Format::kCsv && data.format != Format::kJson) {
    return false;
  }
  const size_t before = data.columns.size();
  for (const std::string& name : names) {
    if (std::ranges::find(data.columns, name, &ColumnConfig::name) != data.columns.end()) continue;
    data.columns.push_back({.name = name, .kind = ColumnConfig::Kind::kSkip});
  }
  return data.columns.size() > before;
}

}  // namespace simurgh
