#include "data/guess/data_format.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/invalid.h"
#include "base/text.h"
#include "config/feature_config.h"
#include "data/guess/data_guess.h"
#include "data/processing/numbers.h"
#include "data/reading/csv_cells.h"

namespace simurgh {
namespace {

using Format = DataConfig::Format;

// Returns the parts of a line between blanks or tabs.
std::vector<std::string_view> PartsOf(std::string_view line) {
  std::vector<std::string_view> words;
  for (const absl::string_view word : absl::StrSplit(absl::string_view(line.data(), line.size()),
                                                     absl::ByAnyChar(" \t"), absl::SkipEmpty())) {
    words.emplace_back(word.data(), word.size());
  }
  return words;
}

// Returns whether a word is index:value or, with `integers` of 2, field:index:value.
bool IsPair(std::string_view word, size_t integers) {
  for (size_t i = 0; i < integers; ++i) {
    const size_t colon = word.find(':');
    if (colon == word.npos || !ParseIntegerCell(word.substr(0, colon))) return false;
    word.remove_prefix(colon + 1);
  }
  return ParseNumberCell(word).has_value();
}

// Returns whether a line is a label and pairs, perhaps with a comment.
bool HasPairs(std::string_view line, size_t integers) {
  const std::vector<std::string_view> words = PartsOf(line);
  if (words.empty() || words[0].starts_with('#')) return true;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with('#')) break;
    const bool is_label = i == 0 && words[i].find(':') == std::string_view::npos;
    if (is_label) {
      if (!ParseNumberCell(words[i].substr(words[i].starts_with('+') ? 1 : 0))) return false;
    } else if (!words[i].starts_with("qid:") && !IsPair(words[i], integers)) {
      return false;
    }
  }
  return true;
}

// Returns whether a line is a row of the Criteo layout: 1 to 16 labels, 13 integers, 26 texts of 8
// digits.
bool IsCriteo(std::string_view line) {
  const std::vector<absl::string_view> cells =
      absl::StrSplit(absl::string_view(line.data(), line.size()), '\t');
  constexpr size_t kOthers = kCriteoDenseColumns + kCriteoIdColumns;
  constexpr size_t kDigits = 8;
  if (cells.size() <= kOthers || cells.size() > kOthers + kMaxTasks) return false;
  const size_t labels = cells.size() - kOthers;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string_view cell(cells[i].data(), cells[i].size());
    if (i < labels) {
      if (cell != "0" && cell != "1") return false;
    } else if (i < labels + kCriteoDenseColumns) {
      if (!cell.empty() && !ParseNumberCell(cell)) return false;
    } else if (!cell.empty() && (cell.size() != kDigits || !std::ranges::all_of(cell, [](char c) {
                                   return absl::ascii_isxdigit(static_cast<unsigned char>(c));
                                 }))) {
      return false;
    }
  }
  return true;
}

Status Invalid(std::string_view message) {
  return absl::InvalidArgumentError(absl::string_view(message.data(), message.size()));
}

}  // namespace

StatusOr<Format> FormatOfName(const std::string& path) {
  constexpr std::array<std::pair<std::string_view, Format>, 5> kFormats = {
      {{".parquet", Format::kParquet},
       {".pq", Format::kParquet},
       {".arrow", Format::kArrow},
       {".feather", Format::kArrow},
       {".ipc", Format::kArrow}}};
  constexpr std::array<std::string_view, 4> kSheets = {".xlsx", ".xls", ".xlsm", ".ods"};
  constexpr std::array<std::string_view, 10> kOthers = {
      ".pkl", ".pickle", ".npy", ".npz", ".h5", ".hdf5", ".avro", ".orc", ".tfrecord", ".sqlite"};
  const std::string ending =
      absl::AsciiStrToLower(std::filesystem::path(path).extension().string());
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) return Format::kParquet;
  for (const auto& [name, format] : kFormats) {
    if (ending == name) return format;
  }
  if (std::ranges::find(kSheets, ending) != kSheets.end()) {
    return Invalid("this is a spreadsheet; save it as CSV, in UTF-8, and give that file");
  }
  if (std::ranges::find(kOthers, ending) != kOthers.end()) {
    return Invalid(absl::StrCat("files of this kind, ", ending,
                                ", cannot be read; write the rows as CSV, Parquet or JSON lines"));
  }
  return Format::kCsv;
}

StatusOr<Format> FormatOfLines(const std::vector<std::string>& lines) {
  const std::string_view first = TrimBlanks(lines.front(), '\0');
  if (first.starts_with('{')) return Format::kJson;
  if (first.starts_with('[')) {
    return Invalid(
        "a JSON array is no row; write one object in each line: jq -c '.[]' in.json > out.jsonl");
  }
  const auto all = [&](const auto& is_row) { return std::ranges::all_of(lines, is_row); };
  if (all(IsCriteo)) return Format::kCriteo;
  if (first.find(':') == first.npos) return Format::kCsv;
  if (all([](const std::string& line) { return HasPairs(line, 1); })) return Format::kLibsvm;
  if (all([](const std::string& line) { return HasPairs(line, 2); })) return Format::kLibffm;
  const size_t cells = first.find_first_of(",;\t|");
  if (first.find("::") != first.npos && cells == first.npos) {
    return Invalid(
        "the cells are separated by '::', which is not supported; ':' works, and so does a tab. "
        "Convert it: sed 's/::/\\t/g' in.dat > out.tsv");
  }
  return Format::kCsv;
}

uint32_t FieldsOf(std::string_view line) {
  uint64_t fields = 1;
  for (const std::string_view word : PartsOf(line)) {
    if (word.starts_with('#')) break;
    const size_t colon = word.find(':');
    if (colon == word.npos) continue;
    const auto field = ParseIntegerCell(word.substr(0, colon));
    if (field && *field < kMaxFeatures) fields = std::max(fields, *field + 1);
  }
  return static_cast<uint32_t>(fields);
}

const char* FormatName(Format format) {
  switch (format) {
    case Format::kCsv:
      return "csv";
    case Format::kCriteo:
      return "criteo";
    case Format::kJson:
      return "json";
    case Format::kLibsvm:
      return "libsvm";
    case Format::kLibffm:
      return "libffm";
    case Format::kParquet:
      return "parquet";
    case Format::kArrow:
      return "arrow";
  }
  return "csv";
}

}  // namespace simurgh
