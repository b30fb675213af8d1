#include "simurgh/data/csv_guess.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "data/guess/csv_sample.h"

namespace simurgh {
namespace {

// A name of the configuration for the name in a header: 1 to 63 letters, digits, '_' and '-'.
std::string ConfigName(std::string_view text, size_t column, std::set<std::string>& taken) {
  constexpr size_t kMaxLength = 48;  // Leaves room for suffixes.
  std::string name;
  for (const char c : text) {
    const bool allowed = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-';
    if (allowed) {
      name.push_back(c);
    } else if (!name.empty() && name.back() != '_') {
      name.push_back('_');
    }
  }
  name.resize(std::min(name.size(), kMaxLength));
  while (name.ends_with('_')) name.pop_back();
  if (name.empty()) name = absl::StrCat("column_", column + 1);
  std::string unique = name;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = absl::StrCat(name, "_", i);
  return unique;
}

// Texts of missing cells, over all columns.
std::vector<std::string> MissingValues(const CsvSample& sample,
                                       const std::vector<ColumnGuess>& columns) {
  std::set<std::string> texts = {""};
  for (size_t i = 0; i < columns.size(); ++i) {
    const ColumnProfile& profile = sample.columns[i];
    const auto kind = columns[i].config.kind;
    if (kind == ColumnConfig::Kind::kSkip || kind == ColumnConfig::Kind::kLabel) continue;
    for (const auto& [text, count] : profile.missing) texts.insert(text);
    if (!profile.is_numeric()) continue;
    for (const auto& [text, count] : profile.doubtful) texts.insert(text);
  }
  return {texts.begin(), texts.end()};
}

}  // namespace

const ColumnGuess& CsvGuess::label() const {
  return *std::ranges::find(columns, ColumnConfig::Kind::kLabel,
                            [](const ColumnGuess& column) { return column.config.kind; });
}

StatusOr<CsvGuess> GuessCsv(const std::string& path, const std::string& label, uint64_t max_rows) {
  SIMURGH_ASSIGN_OR_RETURN(const CsvSample sample, SampleCsv(path, max_rows));
  StatusOr<size_t> label_column = FindLabel(sample, label);
  if (!label_column.ok()) {
    const std::string rows = sample.is_whole ? ""
                                             : absl::StrCat("; these are the first ", sample.rows,
                                                            " rows, --rows N looks at more");
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", label_column.status().message(), rows));
  }
  CsvGuess guess{.separator = sample.separator,
                 .header = sample.header,
                 .header_line = sample.header_line,
                 .rows = sample.rows,
                 .is_whole = sample.is_whole};
  std::set<std::string> taken;
  std::map<std::string, int> uses;  // Of names in the header.
  for (const std::string& name : sample.header) ++uses[name];
  for (size_t i = 0; i < sample.columns.size(); ++i) {
    const std::string& name = sample.header[i];
    guess.columns.push_back(i == *label_column
                                ? GuessLabel(sample.columns[i])
                                : GuessColumn(name, sample.columns[i], sample.is_whole));
    ColumnGuess& column = guess.columns.back();
    column.config.name = ConfigName(name, i, taken);
    if (column.config.name != name) column.config.header_name = name;
    // Training finds columns by their names.
    if (!name.empty() && uses[name] == 1) continue;
    if (i == *label_column) {
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          ":1: the label column has no name, or that of another; correct the header, or choose "
          "another label with --label"));
    }
    column = {.config = {.name = column.config.name, .kind = ColumnConfig::Kind::kSkip},
              .reason = name.empty() ? "no name" : "its name is in the header twice"};
  }
  guess.missing_values = MissingValues(sample, guess.columns);
  for (ColumnGuess& column : guess.columns) {
    std::erase_if(column.vocabulary, [&](const std::string& text) {
      return std::ranges::find(guess.missing_values, text) != guess.missing_values.end();
    });
  }
  const bool has_inputs = std::ranges::any_of(guess.columns, [](const ColumnGuess& column) {
    return column.config.kind == ColumnConfig::Kind::kId ||
           column.config.kind == ColumnConfig::Kind::kDense;
  });
  if (has_inputs) return guess;
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": no column to learn from; add columns whose values repeat, or choose another "
      "label with --label. Columns without a name, or with a doubled one, are skipped"));
}

}  // namespace simurgh
