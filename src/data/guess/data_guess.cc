#include "data/guess/data_guess.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/text.h"
#include "data/guess/column_name.h"
#include "data/guess/data_sample.h"
#include "data/guess/evidence.h"
#include "data/guess/row_groups.h"
#include "data/processing/numbers.h"
#include "data/reading/csv_cells.h"

namespace simurgh {
namespace {

// Returns a name of the configuration for one in a header: letters, digits, '_' and '-'.
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

// Returns the texts of missing cells, over all columns.
std::vector<std::string> MissingValues(const DataSample& sample,
                                       const std::vector<ColumnGuess>& columns) {
  std::set<std::string> texts = {""};
  for (size_t i = 0; i < columns.size(); ++i) {
    const ColumnProfile& profile = sample.columns[i];
    const auto kind = columns[i].config.kind;
    if (kind == ColumnConfig::Kind::kSkip || kind == ColumnConfig::Kind::kLabel) continue;
    for (const auto& [text, count] : profile.missing) texts.insert(text);
    if (!profile.is_numeric() && !columns[i].config.date) continue;
    for (const auto& [text, count] : profile.doubtful) texts.insert(text);
    if (kind != ColumnConfig::Kind::kDense) continue;
    for (const auto& [text, count] : profile.words) texts.insert(text);
  }
  return {texts.begin(), texts.end()};
}

// Role of a column by the options.
enum class Wish { kGuess, kLabel, kId, kDense, kSkip, kWeight, kGroup, kTime };

// Returns one wish per column. Errors: INVALID_ARGUMENT for a name that is not in the header, or in
// two options.
StatusOr<std::vector<Wish>> WishesOf(const std::vector<std::string>& header, size_t label,
                                     const GuessOptions& options) {
  std::vector<Wish> wishes(header.size(), Wish::kGuess);
  std::vector<std::string> named(header.size());
  wishes[label] = Wish::kLabel;
  named[label] = "the label";
  const auto add = [&](const char* option, const std::string& name, Wish wish) -> Status {
    if (name.empty()) return absl::OkStatus();
    SIMURGH_ASSIGN_OR_RETURN(const size_t column, FindColumn(header, option, name));
    if (wishes[column] != Wish::kGuess) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " ", name, ": the column is ", named[column], "; name it once"));
    }
    wishes[column] = wish;
    named[column] = absl::StrCat("that of ", option);
    return absl::OkStatus();
  };
  SIMURGH_RETURN_IF_ERROR(add("--weight", options.weight, Wish::kWeight));
  SIMURGH_RETURN_IF_ERROR(add("--group", options.group, Wish::kGroup));
  for (const auto& [option, names, wish] : {std::tuple("--id", &options.ids, Wish::kId),
                                            {"--dense", &options.dense, Wish::kDense},
                                            {"--skip", &options.skip, Wish::kSkip}}) {
    for (const std::string& text : *names) {
      for (const std::string& name : NamesIn(text, header)) {
        SIMURGH_RETURN_IF_ERROR(add(option, name, wish));
      }
    }
  }
  if (options.time.empty()) return wishes;
  SIMURGH_ASSIGN_OR_RETURN(const size_t time, FindColumn(header, "--time", options.time));
  // The column of the time can be a feature, too.
  if (wishes[time] == Wish::kGuess) wishes[time] = Wish::kTime;
  if (wishes[time] == Wish::kLabel) {
    return absl::InvalidArgumentError(
        absl::StrCat("--time ", options.time, ": the column is the label; name another one"));
  }
  return wishes;
}

ColumnGuess Left(std::string reason) {
  return {.config = {.name = {}, .kind = ColumnConfig::Kind::kSkip}, .reason = std::move(reason)};
}

// Returns the loss of a constant, defined like Evidence::constant.
double ConstantLoss(const ColumnProfile& label, const ColumnConfig& config) {
  if (config.label_values != ColumnConfig::LabelValues::kBinary) return 1;
  double positives = 0;
  double all = 0;
  for (const auto& [text, count] : label.values) {
    const bool is_positive =
        config.positive.empty() ? ParseNumberCell(text) == 1 : IsAmong(text, config.positive, {});
    if (is_positive) positives += static_cast<double>(count);
    all += static_cast<double>(count);
  }
  const double share = positives / all;
  return -share * std::log(share) - (1 - share) * std::log1p(-share);
}

// Returns the loss of the column alone if it nearly tells the label.
std::optional<double> LossOfTelling(const Evidence& evidence) {
  constexpr uint64_t kMinRows = 500;
  constexpr double kShare = 0.05;
  if (evidence.rows >= kMinRows && evidence.least() < kShare * evidence.constant) {
    return evidence.least();
  }
  const bool tells = evidence.by_presence < kShare * evidence.constant_of_all;
  return tells ? std::optional(evidence.by_presence) : std::nullopt;
}

// Returns "; 12 % are missing", or an empty text if few are.
std::string MissingShare(const ColumnProfile& profile) {
  constexpr double kFew = 0.05;
  uint64_t missing = profile.missing_cells();
  if (profile.is_numeric() || profile.are_dates()) {
    for (const auto& [text, count] : profile.doubtful) missing += count;
    for (const auto& [text, count] : profile.words) missing += count;
  }
  const double share = static_cast<double>(missing) / static_cast<double>(profile.cells());
  if (share <= kFew || profile.filled == 0) return "";
  return absl::StrFormat("; %.0f %% are missing", 100 * share);
}

bool IsInput(const ColumnGuess& column) {
  return column.config.kind == ColumnConfig::Kind::kId ||
         column.config.kind == ColumnConfig::Kind::kDense;
}

// Guesses each column but the label, in turn.
class Guesser {
 public:
  Guesser(const DataSample& sample, size_t label, const ColumnGuess& guess)
      : sample_(sample), labels_(sample.kept, label, guess.config) {}

  // is_strict: whether to leave out what tells the label.
  StatusOr<ColumnGuess> Guess(size_t i, Wish wish, bool is_strict) const {
    const std::string& name = sample_.header[i];
    const ColumnProfile& profile = sample_.columns[i];
    if (!sample_.table.columns.empty()) {
      const ColumnConfig::Kind kind = sample_.table.columns[i].kind;
      if (kind == ColumnConfig::Kind::kSkip) return Left("no text, number or list of these");
      // A field can be a number, whose value differs.
      if (wish == Wish::kGuess && HasPairs(sample_.table) && profile.distinct.count() == 1) {
        wish = Wish::kId;
      }
      // Ids of Criteo's layout can look like numbers.
      if (wish == Wish::kGuess && sample_.table.format == DataConfig::Format::kCriteo &&
          kind == ColumnConfig::Kind::kId) {
        wish = Wish::kId;
      }
    }
    const bool is_numeric = profile.is_numeric();
    const Evidence evidence =
        labels_.Measure(i, is_numeric, is_numeric && IsLogOf(profile), profile.format);
    const OtherDates dates = FindOtherDates(sample_.kept, i, profile);
    if (dates.order != DateOrder::kYearFirst && (wish == Wish::kGuess || wish == Wish::kDense)) {
      ColumnGuess guess = dates.guess;
      absl::StrAppend(&guess.reason, MissingShare(profile));
      return guess;
    }
    switch (wish) {
      case Wish::kSkip:
        return Left("--skip");
      case Wish::kTime: {
        const bool is_dense = is_numeric || dates.order != DateOrder::kYearFirst;
        ColumnGuess guess = Left(absl::StrCat("the rows are split by it; as a feature: ",
                                              is_dense ? "--dense " : "--id ", ShellWord(name)));
        guess.config.date_order = dates.order;
        return guess;
      }
      case Wish::kId:
        return GuessAs(ColumnConfig::Kind::kId, name, profile, evidence, sample_.is_whole);
      case Wish::kGroup: {
        SIMURGH_ASSIGN_OR_RETURN(ColumnGuess guess, GuessAs(ColumnConfig::Kind::kId, name, profile,
                                                            evidence, sample_.is_whole));
        guess.reason += "; the rows of each are a group";
        return guess;
      }
      case Wish::kDense:
        return GuessAs(ColumnConfig::Kind::kDense, name, profile, evidence, sample_.is_whole);
      case Wish::kWeight:
        return GuessAs(ColumnConfig::Kind::kWeight, name, profile, evidence, sample_.is_whole);
      case Wish::kLabel:
      case Wish::kGuess:
        break;
    }
    ColumnGuess guess = GuessColumn(name, profile, evidence, sample_.is_whole);
    absl::StrAppend(&guess.reason, MissingShare(profile));
    if (dates.is_ambiguous) {
      absl::StrAppend(
          &guess.reason,
          "; looks like dates, but no day above 12 tells the order; convert them to YYYY-MM-DD");
    }
    if (!IsInput(guess)) return guess;
    const std::string use = absl::StrCat(
        "as a feature: ", guess.config.kind == ColumnConfig::Kind::kDense ? "--dense " : "--id ",
        ShellWord(name));
    if (IsFurtherLabel(name, profile)) {
      return Left(absl::StrCat("looks like a second label; ", use,
                               "; as a task: see 'Several labels' in config/README.md"));
    }
    if (!is_strict) return guess;
    if (const auto loss = LossOfTelling(evidence)) {
      return Left(
          absl::StrFormat("predicts the label nearly alone, loss %.3f, as if it were known only "
                          "after it; %s",
                          *loss, use));
    }
    return guess;
  }

  // Returns the crosses of columns whose cells are single ids.
  std::vector<Cross> Crosses(const DataGuess& guess) const {
    if (HasPairs(guess.table) || guess.table.format == DataConfig::Format::kCriteo) return {};
    std::vector<size_t> columns;
    for (size_t i = 0; i < guess.columns.size(); ++i) {
      const ColumnGuess& column = guess.columns[i];
      const bool is_id =
          column.config.kind == ColumnConfig::Kind::kId && column.config.separator == '\0';
      if (is_id || column.is_also_id) columns.push_back(i);
    }
    return labels_.FindCrosses(columns);
  }

 private:
  const DataSample& sample_;
  KeptLabels labels_;
};

// Completes the guess of a column by the notation of its numbers.
void SetNumbers(const ColumnProfile& profile, ColumnGuess& guess) {
  using Kind = ColumnConfig::Kind;
  ColumnConfig& config = guess.config;
  const bool is_dense = config.kind == Kind::kDense;
  if (!profile.is_numeric() && !config.date) return;
  if (is_dense || config.kind == Kind::kWeight ||
      (config.kind == Kind::kLabel && config.positive.empty())) {
    config.numbers = profile.format;
  }
  if (is_dense) {
    for (const auto& [text, count] : profile.words) {
      absl::StrAppend(&guess.reason, "; ", Quoted(text), " means a missing one");
    }
  }
  if (config.date) return;
  const bool has_ids = config.kind == Kind::kId || (is_dense && guess.is_also_id);
  config.integers =
      has_ids && profile.format == NumberFormat() && profile.integers == profile.numbers;
  if (!config.integers) return;
  if (profile.mangled == 0) return;
  absl::StrAppend(&guess.reason, "; ", profile.mangled, " like ", profile.first_mangled,
                  " have lost digits and are missing");
}

}  // namespace

const ColumnGuess& DataGuess::label() const {
  return *std::ranges::find(columns, ColumnConfig::Kind::kLabel,
                            [](const ColumnGuess& column) { return column.config.kind; });
}

namespace {

// Changes a guess to what the format of its file can express. Errors: INVALID_ARGUMENT for a label.
Status FitTable(DataGuess& guess) {
  using Format = DataConfig::Format;
  DataConfig& table = guess.table;
  for (size_t i = 0; i < guess.columns.size(); ++i) {
    ColumnGuess& column = guess.columns[i];
    ColumnConfig& config = column.config;
    // Lists in JSON have no separator.
    const bool has_lists = config.separator == kListSeparator;
    const bool has_vectors = has_lists && config.width > 1;
    if (has_vectors || (table.format == Format::kJson && has_lists)) config.separator = '\0';
    // Numbers in Criteo's layout are always inputs.
    if (!table.columns.empty() && config.kind == ColumnConfig::Kind::kSkip &&
        table.columns[i].kind == ColumnConfig::Kind::kDense) {
      config.kind = ColumnConfig::Kind::kDense;
      absl::StrAppend(&column.reason, "; a number of the format");
    }
    if (table.format == Format::kCriteo) config.date = config.integers = column.has_times = false;
    if (config.kind != ColumnConfig::Kind::kLabel) continue;
    if (HasPairs(table) && config.label_values == ColumnConfig::LabelValues::kBinary) {
      const auto is_label = [](const std::vector<std::string>& texts, const char* text) {
        return texts.empty() || texts[0] == text;
      };
      if (!is_label(config.positive, "1") ||
          (!is_label(config.negative, "-1") && !is_label(config.negative, "0"))) {
        return absl::InvalidArgumentError(
            absl::StrCat("the labels are ", config.negative[0], " and ", config.positive[0],
                         "; rows of libsvm and libffm need 0 or -1, and 1: awk '{$1 = $1 == \"",
                         config.positive[0], "\"} 1' in > out"));
      }
      column.reason = config.positive.empty() ? "0 and 1" : "-1 is 0";
      config.positive.clear();
      config.negative.clear();
      table.columns[0].label_values = ColumnConfig::LabelValues::kBinary;
    }
  }
  return absl::OkStatus();
}

// Returns whether the names have a word in common: "hist_item" and "item_id".
bool ShareWord(std::string_view a, std::string_view b) {
  const std::vector<std::string> words = WordsOf(WithoutType(b));
  return std::ranges::any_of(WordsOf(WithoutType(a)), [&](const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  });
}

// Finds lists of items that were seen, and the column of the item that is seen or not: by names,
// and by values that both have.
void FindSequences(const DataSample& sample, DataGuess& guess) {
  constexpr double kMinShare = 0.5;  // Least share of the values of one of the columns.
  constexpr double kMinBoth = 0.05;
  constexpr uint64_t kMaxLength = 50;
  const auto is_list = [](const ColumnGuess& column) {
    return column.config.kind == ColumnConfig::Kind::kId && column.config.separator != '\0';
  };
  for (size_t i = 0; i < guess.columns.size(); ++i) {
    ColumnGuess& lists = guess.columns[i];
    if (!is_list(lists) || !NamesHistory(sample.header[i])) continue;
    const size_t separator = ColumnProfile::kListSeparators.find(lists.config.separator);
    const ListProfile& list = sample.columns[i].lists[separator];
    double best = 0;
    ColumnGuess* item = nullptr;
    double shown = 0;
    for (size_t k = 0; k < guess.columns.size(); ++k) {
      ColumnGuess& other = guess.columns[k];
      if (other.config.kind != ColumnConfig::Kind::kId || is_list(other)) continue;
      const double of_list = list.distinct.ShareIn(sample.columns[k].distinct);
      const double of_other = sample.columns[k].distinct.ShareIn(list.distinct);
      if (std::max(of_list, of_other) < kMinShare || std::min(of_list, of_other) < kMinBoth) {
        continue;
      }
      const double fit =
          of_list + of_other + (ShareWord(sample.header[i], sample.header[k]) ? 1 : 0);
      if (fit <= best) continue;
      best = fit;
      item = &other;
      shown = of_list;
    }
    if (item == nullptr) continue;
    lists.item = item->config.name;
    lists.max_length = static_cast<uint32_t>(std::min(list.most, kMaxLength));
    absl::StrAppendFormat(&lists.reason, "; attention for %s, which has %.0f %% of them",
                          item->config.name, 100 * shown);
  }
}

// is_strict: whether columns that tell the label are left out, if there are others.
StatusOr<DataGuess> GuessSample(const DataSample& sample, const GuessOptions& options,
                                bool is_strict) {
  StatusOr<size_t> label_column = FindLabel(sample, options.label, options.label_command);
  if (!label_column.ok() && sample.is_whole) return label_column.status();
  if (!label_column.ok()) {
    return Annotate(label_column.status(),
                    absl::StrCat("of the first ", sample.rows, " rows (--sample N reads more)"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<Wish> wishes,
                           WishesOf(sample.header, *label_column, options));
  DataGuess guess{.table = sample.table,
                  .separator = sample.separator,
                  .header = sample.header,
                  .header_line = sample.header_line,
                  .rows = sample.rows,
                  .is_whole = sample.is_whole};
  std::set<std::string> taken;
  std::map<std::string, int> uses;  // Name in the header -> number of columns.
  for (const std::string& name : sample.header) ++uses[name];
  SIMURGH_ASSIGN_OR_RETURN(ColumnGuess label,
                           GuessLabel(sample.columns[*label_column], options.positive));
  SetNumbers(sample.columns[*label_column], label);
  const Guesser guesser(sample, *label_column, label);
  for (size_t i = 0; i < sample.columns.size(); ++i) {
    const std::string& name = sample.header[i];
    // Training finds columns by their names.
    const bool is_found = !name.empty() && uses[name] == 1;
    if (i == *label_column) {
      if (!is_found) {
        return absl::InvalidArgumentError(
            "the label column has no name, or that of another; correct the header, or choose "
            "another label with --label");
      }
      guess.columns.push_back(label);
    } else if (is_found) {
      SIMURGH_ASSIGN_OR_RETURN(ColumnGuess column, guesser.Guess(i, wishes[i], is_strict));
      SetNumbers(sample.columns[i], column);
      guess.columns.push_back(std::move(column));
    } else {
      guess.columns.push_back(Left(name.empty() ? "no name" : "its name is in the header twice"));
    }
    ColumnConfig& config = guess.columns.back().config;
    config.name = ConfigName(WithoutType(name), i, taken);
    if (config.name != name) config.header_name = is_found ? name : "";
    if (wishes[i] == Wish::kGroup) guess.group_feature = config.name;
  }
  if (!options.time.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(guess.time_column, FindColumn(sample.header, "--time", options.time));
  }
  guess.constant_loss = ConstantLoss(sample.columns[*label_column], label.config);
  guess.has_copies = AreCopies(sample, *label_column);
  if (const auto spread = SpreadColumn(sample, *label_column)) {
    guess.spread_column = sample.header[*spread];
  }
  guess.missing_values = MissingValues(sample, guess.columns);
  if (!HasPairs(guess.table)) FindSequences(sample, guess);
  guess.crosses = guesser.Crosses(guess);
  SIMURGH_RETURN_IF_ERROR(FitTable(guess));
  for (size_t i = 0; options.is_for_stream && i < guess.columns.size(); ++i) {
    ColumnGuess& column = guess.columns[i];
    if (column.quantiles == 0) continue;
    std::vector<double> numbers;
    for (size_t row = 0; row < sample.kept.size(); ++row) {
      const auto number = ParseNumberCell(sample.kept.Cell(row, i), column.config.numbers);
      if (number) numbers.push_back(*number);
    }
    column.boundaries = QuantileBoundaries(std::move(numbers), column.quantiles);
  }
  const auto ids = static_cast<size_t>(
      std::ranges::count(guess.columns, ColumnConfig::Kind::kId,
                         [](const ColumnGuess& column) { return column.config.kind; }));
  if (ids > kMaxFeatures) {
    return absl::InvalidArgumentError(absl::StrCat(
        ids, " columns of ids; a model has at most ", kMaxFeatures,
        " features, one for each; leave others out with --skip, or remove them: "
        "cut -d '",
        std::string(1, guess.separator), "' -f 1-", kMaxFeatures, " in.csv > out.csv"));
  }
  if (std::ranges::any_of(guess.columns, IsInput)) return guess;
  if (is_strict) return GuessSample(sample, options, false);
  return absl::InvalidArgumentError(
      "no column to learn from; add columns whose values repeat, or choose another label with "
      "--label. Columns without a name, or with a doubled one, are skipped");
}

}  // namespace

StatusOr<DataGuess> GuessData(const std::string& path, const GuessOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(const DataSample sample, SampleData(path, options.max_rows));
  StatusOr<DataGuess> guess = GuessSample(sample, options, true);
  if (guess.ok()) return guess;
  return Annotate(guess.status(),
                  HasHeader(sample.table)
                      ? path
                      : absl::StrCat(path, ": format: ", FormatName(sample.table.format)));
}

}  // namespace simurgh
