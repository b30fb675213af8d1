#include "data/guess/row_split.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <unistd.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/hash.h"
#include "base/text.h"
#include "config/uri.h"
#include "data/guess/data_sample.h"
#include "data/guess/part_file.h"
#include "data/guess/table_rows.h"
#include "data/guess/time_split.h"
#include "data/processing/times.h"
#include "data/reading/csv_cells.h"
#include "data/reading/row_lines.h"

namespace simurgh {
namespace {

namespace fs = std::filesystem;

// Splits rows and checks them against a guess.
class RowChecker {
 public:
  explicit RowChecker(const DataGuess& guess)
      : guess_(guess), splitter_(guess.table), label_(guess.label().config) {}

  // Returns whether the label of a row is 1; false for a number. Errors: INVALID_ARGUMENT for a bad
  // row.
  StatusOr<bool> LabelOf(const Line& line) {
    if (!line.whole) return LongLineError();
    SIMURGH_ASSIGN_OR_RETURN(const auto* cells, splitter_.Split(line.text));
    SIMURGH_RETURN_IF_ERROR(CheckLength(cells->size(), guess_.columns.size()));
    bool label = false;
    for (size_t i = 0; i < cells->size(); ++i) {
      const std::string_view cell = (*cells)[i];
      if (guess_.time_column == i && !ParseTimeCell(cell, guess_.columns[i].config.date_order)) {
        return BadCell(guess_.columns[i].config, cell,
                       "is neither a number nor a date such as 2024-02-29 23:59; correct it");
      }
      switch (guess_.columns[i].config.kind) {
        case ColumnConfig::Kind::kLabel: {
          SIMURGH_ASSIGN_OR_RETURN(label, ParseLabel(cell));
          break;
        }
        case ColumnConfig::Kind::kDense:
          if (guess_.columns[i].config.width > 1) break;  // Training reports bad vectors.
          if (!ParseCell(guess_.columns[i].config, cell) && !IsMissing(cell)) {
            return BadCell(guess_.columns[i].config, cell,
                           absl::StrCat("is no number, unlike those of the first ", guess_.rows,
                                        " rows; correct it"));
          }
          break;
        case ColumnConfig::Kind::kWeight:
          if (const auto weight = ParseNumberCell(cell); !weight || *weight < 0) {
            return BadCell(guess_.columns[i].config, cell,
                           "is no weight; correct it to a number of at least 0");
          }
          break;
        case ColumnConfig::Kind::kId:
        case ColumnConfig::Kind::kSkip:
        case ColumnConfig::Kind::kGroup:
          break;
      }
    }
    return label;
  }

 private:
  static Status BadCell(const ColumnConfig& column, std::string_view cell, std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("column '", column.name, "': ", Quoted(cell),
                                                   " ",
                                                   absl::string_view(what.data(), what.size())));
  }
  bool IsMissing(std::string_view cell) const {
    return std::ranges::find(guess_.missing_values, cell) != guess_.missing_values.end();
  }
  StatusOr<bool> ParseLabel(std::string_view cell) const {
    if (label_.label_values != ColumnConfig::LabelValues::kBinary) {
      const auto number = ParseNumberCell(cell, label_.numbers);
      if (number && std::isfinite(static_cast<float>(*number))) return false;
      return BadCell(label_, cell, "is no number; correct it, or remove the row");
    }
    if (!label_.positive.empty()) {
      if (const std::optional<bool> listed = IsPositive(cell, label_)) return *listed;
    } else if (const auto number = ParseNumberCell(cell);
               number && (*number == 0 || *number == 1)) {
      return *number == 1;
    }
    return BadCell(label_, cell, "is neither label; correct it, or remove the row");
  }

  const DataGuess& guess_;
  TableCells splitter_;
  const ColumnConfig& label_;
};

Status CheckNames(const DataGuess& guess, std::string_view line) {
  CsvSplitter splitter(guess.separator);
  const auto names = splitter.Split(line);
  if (names.ok() && std::ranges::equal(**names, guess.header)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("another header than that of the first file; give files with the columns ",
                   absl::StrJoin(guess.header, std::string(1, guess.separator))));
}

}  // namespace

StatusOr<RowCounts> ReadGuessed(const DataGuess& guess, const std::string& path,
                                absl::FunctionRef<Status(std::string_view line, bool label)> take) {
  SIMURGH_ASSIGN_OR_RETURN(TableLines lines, TableLines::Open(guess.table, path));
  if (HasHeader(guess.table)) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, lines.Next());
    if (line) SIMURGH_RETURN_IF_ERROR(lines.AtLine(CheckNames(guess, line->text)));
  }
  RowChecker checker(guess);
  RowCounts counts;
  BadRows bad;
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, lines.Next());
    if (!line) break;
    const StatusOr<bool> label = checker.LabelOf(*line);
    if (!label.ok()) {
      bad.Add(lines.AtLine(label.status()));
      continue;
    }
    ++counts.rows;
    if (*label) ++counts.positives;
    SIMURGH_RETURN_IF_ERROR(take(line->text, *label));
  }
  SIMURGH_RETURN_IF_ERROR(bad.Check(counts.rows));
  if (counts.rows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, HasHeader(guess.table) ? ": no rows below the header" : ": no rows",
                     "; give some with both labels"));
  }
  counts.bad_rows = bad.count;
  counts.blank_rows = lines.blank_rows();
  counts.first_bad = bad.first;
  return counts;
}

namespace {

StatusOr<PartFile> OpenPart(const DataGuess& guess, const std::string& path,
                            PartFile::Order order) {
  return PartFile::Create(path, guess.header_line.empty() ? "" : guess.header_line + "\n", order);
}

// Endings of file names that StemOf() removes.
constexpr std::array<std::string_view, 17> kEndings = {
    ".gz",     ".zst", ".csv",    ".tsv",     ".txt", ".dat",   ".data",   ".json",   ".jsonl",
    ".ndjson", ".svm", ".libsvm", ".parquet", ".ffm", ".arrow", ".libffm", ".feather"};

}  // namespace

std::string StemOf(const std::string& data) {
  std::string name = fs::path(WithoutOptions(data)).filename();
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending) && name.size() > ending.size()) {
      name.resize(name.size() - ending.size());
    }
  }
  return name;
}

StatusOr<std::string> FolderFor(const std::string& data) {
  if (IsUri(data)) return std::string();
  const std::string folder = fs::path(data).parent_path();
  for (const std::string& one : {folder, std::string()}) {
    if (::access(one.empty() ? "." : one.c_str(), W_OK) == 0 || errno == ENOENT) return one;
  }
  return absl::PermissionDeniedError(
      absl::StrCat("neither the folder ", folder.empty() ? "." : folder,
                   " nor the current one can be written; choose another: --output FOLDER/",
                   ShellWord(StemOf(data) + ".yaml")));
}

SplitFiles PartsOf(const DataGuess& guess, const std::string& path, const std::string& prefix) {
  const std::string data(WithoutOptions(path));
  const bool is_compressed = data.ends_with(".gz") || data.ends_with(".zst");
  std::string ending = ".csv";
  if (!HasHeader(guess.table) && !IsArrow(guess.table)) {
    const fs::path plain = is_compressed ? fs::path(data).stem() : fs::path(data).filename();
    ending = plain.extension().string();
  }
  // Rows of Parquet data are much longer as text.
  if (is_compressed || IsArrow(guess.table)) ending += ".zst";
  const auto part = [&](const char* name) { return absl::StrCat(prefix, ".", name, ending); };
  return {.train = part("train"), .validation = part("valid"), .test = part("test")};
}

StatusOr<RowCounts> CopyRows(const DataGuess& guess, const std::string& from,
                             const std::string& to) {
  SIMURGH_ASSIGN_OR_RETURN(PartFile file, OpenPart(guess, to, PartFile::Order::kKept));
  SIMURGH_ASSIGN_OR_RETURN(RowCounts counts,
                           ReadGuessed(guess, from, [&](std::string_view line, bool /*label*/) {
                             return file.Add(line);
                           }));
  SIMURGH_RETURN_IF_ERROR(file.Commit());
  return counts;
}

StatusOr<SplitCounts> SplitCsv(const DataGuess& guess, const std::string& path,
                               const SplitFiles& files, uint64_t every) {
  enum Part { kTrain, kValidation, kTest };
  std::array<std::optional<PartFile>, 3> outputs;
  for (size_t part = 0; const std::string& name : {files.train, files.validation, files.test}) {
    // The rows of validation are shuffled, too: with --refit, they are for training.
    const auto order = part == kTest ? PartFile::Order::kKept : PartFile::Order::kRandom;
    std::optional<PartFile>& output = outputs[part++];
    if (name.empty()) continue;
    SIMURGH_ASSIGN_OR_RETURN(output, OpenPart(guess, name, order));
  }
  SplitCounts counts{.every = every};
  const auto new_part_of = [&](bool label) {
    const uint64_t row = counts.distinct[label ? 1 : 0]++;
    const uint64_t block = row / every;
    // The choice within a block is random, since rows can repeat in a pattern. The second and third
    // row of a rare label are for test and validation, so that all files have it.
    const uint64_t hash = HashBytes(absl::StrCat(block, label ? "+" : "-"));
    const uint64_t test = block == 0 ? 1 : hash % every;
    const uint64_t apart = block == 0 ? 1 : 1 + hash / every % (every - 1);
    if (row % every == test && outputs[kTest]) return kTest;
    const bool is_apart = row % every == (test + apart) % every;
    return is_apart && outputs[kValidation] ? kValidation : kTrain;
  };
  constexpr size_t kMaxKnown = 2'000'000;  // Limits memory. Hashes decide about further rows.
  struct Known {
    Part part;
    uint64_t rows;
  };
  absl::flat_hash_map<uint64_t, Known> known;
  const auto part_of = [&](std::string_view line, bool label) {
    if (!guess.has_copies) return new_part_of(label);
    const uint64_t hash = HashBytes(line);
    if (known.size() >= kMaxKnown) {
      const auto found = known.find(hash);
      if (found != known.end()) {
        ++counts.copies;
        return found->second.part;
      }
      const uint64_t choice = Mix64(hash) % every;
      if (choice == 0 && outputs[kTest]) return kTest;
      return choice == 1 && outputs[kValidation] ? kValidation : kTrain;
    }
    const auto [at, is_new] = known.try_emplace(hash, Known{kTrain, 0});
    if (is_new) {
      at->second.part = new_part_of(label);
    } else {
      ++counts.copies;
    }
    counts.most_copies = std::max(counts.most_copies, ++at->second.rows);
    return at->second.part;
  };
  std::optional<TimeSplit> by_time;
  if (guess.time_column) {
    SIMURGH_ASSIGN_OR_RETURN(by_time, TimeSplit::Read(guess, path, every, !files.validation.empty(),
                                                      !files.test.empty()));
  }
  size_t row = 0;
  SIMURGH_ASSIGN_OR_RETURN(
      counts.all, ReadGuessed(guess, path, [&](std::string_view line, bool label) {
        const auto part = by_time ? static_cast<Part>(by_time->PartOf(row)) : part_of(line, label);
        ++row;
        return outputs[part]->Add(line);
      }));
  for (std::optional<PartFile>& output : outputs) {
    if (output) SIMURGH_RETURN_IF_ERROR(output->Commit());
  }
  counts.train = outputs[kTrain]->lines();
  if (outputs[kValidation]) counts.validation = outputs[kValidation]->lines();
  if (outputs[kTest]) counts.test = outputs[kTest]->lines();
  return counts;
}

StatusOr<SplitCounts> SplitData(DataGuess guess, const std::string& path, SplitFiles& files) {
  constexpr uint64_t kFewRows = 20'000;
  constexpr uint64_t kFewest = 3;  // With these, the validation rows have both labels.
  const uint64_t every = guess.is_whole && guess.rows < kFewRows ? 5 : 10;
  SIMURGH_ASSIGN_OR_RETURN(SplitCounts counts, SplitCsv(guess, path, files, every));
  const bool is_binary = guess.label().config.label_values == ColumnConfig::LabelValues::kBinary;
  const uint64_t fair = counts.all.rows / every;
  const auto is_off = [&](uint64_t part) { return part < fair / 2 || part > 2 * fair; };
  if (counts.copies > 0) {
    constexpr uint64_t kFewDistinct = 100;
    // One row that fills a part would decide its share of positives.
    constexpr uint64_t kLeastParts = 20;
    const bool are_few = counts.most_copies * kLeastParts > fair ||
                         counts.distinct[0] + counts.distinct[1] < kFewDistinct ||
                         (is_binary && std::ranges::min(counts.distinct) < kFewest);
    if (are_few || is_off(counts.validation) || (!files.test.empty() && is_off(counts.test))) {
      guess.has_copies = false;
      SIMURGH_ASSIGN_OR_RETURN(counts, SplitCsv(guess, path, files, every));
    }
  }
  const uint64_t negatives = counts.all.rows - counts.all.positives;
  if (!is_binary || std::min(counts.all.positives, negatives) >= kFewest) return counts;
  std::error_code ignored;
  fs::remove(std::exchange(files.validation, ""), ignored);
  return SplitCsv(guess, path, files, every);
}

}  // namespace simurgh
