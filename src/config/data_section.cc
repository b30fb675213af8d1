#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "config/diagnostics.h"
#include "config/file.h"
#include "config/sections.h"
#include "config/uri.h"

namespace simurgh {
namespace {

constexpr size_t kMaxFiles = 65'536;
constexpr size_t kMaxColumns = 65'536;
constexpr size_t kMaxTexts = 1'024;
constexpr uint32_t kMaxFields = 4'096;
constexpr uint32_t kMaxDerivedWidth = 1'024;
constexpr uint32_t kMaxTop = 100'000;
constexpr size_t kMaxTops = 16;
constexpr uint64_t kMaxRows = uint64_t{1} << 40;

using ColumnKind = ColumnConfig::Kind;
using Format = DataConfig::Format;
using OnBadRow = DataConfig::OnBadRow;
using OnChange = DataConfig::OnChange;
using Transform = ColumnConfig::Transform;

// The scope of keys that decide which rows are read, and not what the model sees in a row.
constexpr Scope kRows = Scope::kInput | Scope::kTraining;

// Returns whether `file` names data that are not files of this machine.
bool IsElsewhere(Format format, const std::string& file) {
  return IsUri(file) || (format == Format::kArrow && IsStream(file));
}

// Returns the name, for which IsElsewhere() holds; a socket's path may be relative to the folder.
std::string PathElsewhere(const std::string& folder, const std::string& name) {
  constexpr std::string_view kUnix = "unix:";
  if (!name.starts_with(kUnix)) return name;
  return std::string(kUnix) + PathIn(folder, name.substr(kUnix.size()));
}

void ReadFiles(MapReader& in, const std::string& key, const char* meaning, size_t at_least,
               const std::string& folder, Format format, std::vector<std::string>* files) {
  in.Texts(key, meaning, files, {at_least, kMaxFiles},
           at_least > 0 ? Need::kRequired : Need::kOptional, "paths of files");
  const bool reads = in.context()->input_files == InputFiles::kCheck;
  std::vector<std::string> paths;
  std::vector<std::string> names;
  for (size_t i = 0; i < files->size(); ++i) {
    const std::string& given = (*files)[i];
    if (HasCredentials(given)) {
      in.Error(absl::StrCat(key, ".", i), kCredentialsProblem, kCredentialsRemedy);
      continue;
    }
    if (IsElsewhere(format, given)) {
      names.push_back(FileName(given));
      paths.push_back(PathElsewhere(folder, given));
      continue;
    }
    const std::string path_given = PathIn(folder, given);
    std::vector<std::string> found{given};
    if (reads && (IsPattern(given) || std::filesystem::is_directory(path_given))) {
      found = NamedFiles(format, path_given);
    }
    if (found.empty()) {
      in.Error(absl::StrCat(key, ".", i),
               absl::StrCat("no file in '", path_given, "' has a name that ends in .parquet"),
               "correct the path, or give a pattern");
    }
    for (std::string& path : found) {
      ResolveInputFile(in, absl::StrCat(key, ".", i), folder, &path);
      names.push_back(FileName(path));
      paths.push_back(std::move(path));
    }
  }
  *files = std::move(paths);
  if (files->size() > kMaxFiles) {
    in.Error(key, absl::StrCat("its patterns match ", files->size(), " files"),
             absl::StrCat("use at most ", kMaxFiles));
  }
  if (in.Has(key)) in.Record(key, TextsText(names));
}

// Reads the keys for the notation of a column's cells.
void ReadCells(MapReader& in, Format format, ColumnConfig* column) {
  NumberFormat* const numbers = &column->numbers;
  const bool is_dense = column->kind == ColumnKind::kDense;
  {
    const auto when = in.When(is_dense || column->kind == ColumnKind::kWeight ||
                                  (column->kind == ColumnKind::kLabel && column->positive.empty()),
                              "set kind: dense");
    in.Choice<char>("decimal", "character before the decimals of numbers, see Data files",
                    &numbers->decimal, {{"point", '.'}, {"comma", ','}});
    in.Choice<char>(
        "thousands",
        "character between groups of three digits of numbers; `blank` is also one that "
        "does not break",
        &numbers->thousands,
        {{"none", '\0'}, {"comma", ','}, {"point", '.'}, {"apostrophe", '\''}, {"blank", ' '}});
  }
  if (numbers->decimal == numbers->thousands) {
    in.Error("thousands", "the same as decimal", "choose another character");
  }
  in.When(is_dense || column->kind == ColumnKind::kId, "set kind: id")
      ->Bool("integers",
             "`id`, `dense`: whether ids are integers: `3.0` reads as `3`, and scientific "
             "notation, which has lost digits, as missing",
             &column->integers);
  const auto when_dense = [&] { return in.When(is_dense, "set kind: dense"); };
  when_dense()->Bool(
      "date",
      "`dense`: whether cells are dates or Unix times; the number is the days since 1970, see "
      "Data files",
      &column->date);
  in.When(column->date, "set date: true")
      ->Choice<DateOrder>(
          "date_order",
          "`date`: order of the parts, such as day_first for 31.01.2024 or 31/1/2024 18:20",
          &column->date_order,
          {{"year_first", DateOrder::kYearFirst},
           {"day_first", DateOrder::kDayFirst},
           {"month_first", DateOrder::kMonthFirst}});
  when_dense()->Integer(
      "width",
      "`dense`: numbers of a cell, between `separator`, in `[...]` or in a list; above 1, `fit` is "
      "false",
      &column->width, 1, kMaxDerivedWidth);
  in.OnlyWith(!column->date, "leave out date", {"decimal", "thousands", "integers", "width"});
  in.OnlyWith(column->width == 1, "leave out width", {"fit", "integers"});
  if (format == Format::kCsv && column->width > 1 && column->separator == '\0') {
    in.Error("separator", "missing", "give the character between the numbers of a cell");
  }
}

void ReadColumn(MapReader& in, bool has_names, ColumnConfig* column) {
  in.Name("name", "column name", &column->name, Need::kRequired);
  in.Choice<ColumnKind>("kind", "role of the column; see Features", &column->kind,
                        {{"label", ColumnKind::kLabel},
                         {"dense", ColumnKind::kDense},
                         {"id", ColumnKind::kId},
                         {"skip", ColumnKind::kSkip},
                         {"weight", ColumnKind::kWeight},
                         {"group", ColumnKind::kGroup}});
  in.For(kRows)
      ->When(has_names, "set csv.header: true")
      ->Text("header_name", "name of the column in headers, or the key in JSON; none: `name`",
             &column->header_name, "text");
  const bool is_dense = column->kind == ColumnKind::kDense;
  const bool is_label = column->kind == ColumnKind::kLabel;
  {
    const auto when = in.When(is_label, "set kind: label");
    in.Texts("positive",
             "`label`: texts that mean 1, where 4 is also 4.0; empty: the cell is 0 or 1",
             &column->positive, {0, kMaxTexts}, Need::kOptional);
    in.When(!column->positive.empty(), "give positive")
        ->Texts("negative",
                "`label`: texts that mean 0; others are then bad rows; empty: all texts except "
                "`positive`",
                &column->negative, {0, kMaxTexts}, Need::kOptional);
  }
  {
    const auto when = in.When(is_dense, "set kind: dense");
    in.Number("missing", "`dense`: value of a missing cell", &column->missing, kAnyNumber);
    in.Choice<Transform>(
        "transform", "`dense`: function before scaling; `log1p`: sign(x) log(1 + abs(x))",
        &column->transform, {{"none", Transform::kNone}, {"log1p", Transform::kLog1p}});
  }
  {
    const auto when = in.When(is_dense || is_label, "set kind: dense");
    in.Number("mean",
              "`dense`, `label` with squared_error: mean in `(transform(x) - mean) / stddev`",
              &column->mean, kAnyNumber);
    in.Number("stddev",
              "`dense`, `label` with squared_error: divisor in `(transform(x) - mean) / stddev`",
              &column->stddev, kPositive);
  }
  // FitTargets clears it for labels with another loss than squared_error.
  const bool can_fit = is_dense || is_label || column->kind == ColumnKind::kWeight;
  in.When(can_fit, "set kind: dense")
      ->Bool("fit",
             "`dense`, `label` with squared_error, `weight`: whether mean and stddev are computed "
             "from the training files, see Statistics",
             &column->fit, "true, without mean and stddev");
  if (can_fit && !in.Has("mean") && !in.Has("stddev") && !in.Has("fit") && !in.Has("width")) {
    column->fit = true;
  }
  in.When(column->kind == ColumnKind::kId || in.Has("width"), "set kind: id")
      ->Character("separator", "character between the ids of a cell, or the numbers with `width`",
                  &column->separator);
  in.OnlyWith(!column->fit, "leave out fit", {"mean", "stddev"});
  for (const std::string& text : column->negative) {
    if (std::ranges::find(column->positive, text) == column->positive.end()) continue;
    in.Error("negative", absl::StrCat("'", text, "' is also in positive"), "keep it in one list");
  }
}

void CheckColumnList(MapReader& in, const DataConfig& data) {
  in.context()->diagnostics.CheckDistinct(data.columns, &ColumnConfig::name, [&](size_t i) {
    return in.PathOf(absl::StrCat("columns.", i, ".name"));
  });
  size_t labels = 0;
  std::map<ColumnKind, size_t> count;
  for (size_t i = 0; i < data.columns.size(); ++i) {
    const ColumnConfig& column = data.columns[i];
    const std::string key = absl::StrCat("columns.", i);
    if (column.kind == ColumnKind::kLabel && ++labels > kMaxTasks) {
      in.Error(absl::StrCat(key, ".kind"), "too many labels",
               absl::StrCat("keep at most ", kMaxTasks, " labels"));
    }
    const bool is_single = column.kind == ColumnKind::kWeight || column.kind == ColumnKind::kGroup;
    if (++count[column.kind] > 1 && is_single) {
      in.Error(absl::StrCat(key, ".kind"), "a second column of this kind",
               "keep one, and give the other kind: skip");
    }
  }
  if (labels == 0 && in.context()->diagnostics.ok())
    in.Error("columns", "no label", "give one column kind: label");
}

void ReadCsv(MapReader& in, CsvConfig* csv) {
  csv->finds_header = !in.Has("header");
  in.Character("separator", "character between cells", &csv->separator);
  const auto rows = in.For(kRows);
  in.Bool(
      "header",
      "whether the first line of each file has names, by which columns are found; see Data files",
      &csv->header, "by the first line");
  in.When(csv->header || csv->finds_header, "set header: true")
      ->Bool("strict", "whether columns of the header that `data.columns` lacks are an error",
             &csv->strict);
}

// Returns the problem of a topic's name, or an empty string.
std::string TopicProblem(const std::string& topic) {
  constexpr size_t kMaxLength = 249;
  const bool valid =
      !topic.empty() && topic.size() <= kMaxLength && std::ranges::all_of(topic, [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
               c == '-';
      });
  return valid ? "" : absl::StrCat("'", topic, "' is not the name of a topic");
}

void ReadKafka(MapReader& in, bool is_used, const std::string& folder, KafkaConfig* kafka) {
  constexpr size_t kMaxBrokers = 1'024;
  using Start = KafkaConfig::Start;
  const Need need = is_used ? Need::kRequired : Need::kOptional;
  in.For(Scope::kNone)
      ->TextOrTexts("brokers", "brokers to connect to first, see Kafka", &kafka->brokers,
                    {1, kMaxBrokers}, need, "host:port");
  in.Texts("topics", "topics to train on", &kafka->topics, {1, kMaxTexts}, need, "names of topics",
           TopicProblem);
  in.Choice<Start>("start", "where a new model begins to read a partition", &kafka->start,
                   {{"earliest", Start::kEarliest}, {"latest", Start::kLatest}});
  in.Bool("stop_at_end",
          "whether training ends with the records that are there when it begins; else "
          "`training.epochs: 0` is required",
          &kafka->stop_at_end);
  in.Choice<bool>("on_lost_records",
                  "reaction to records that were deleted before they were read: end the run, or "
                  "leave them out",
                  &kafka->skip_lost, {{"fail", false}, {"skip", true}});
  const auto own = in.For(Scope::kNone);
  in.TextMap("properties", "further properties of librdkafka, see Kafka", &kafka->properties,
             "mapping of names to texts");
  in.Text("properties_file", "file with further properties, which may be secret, see Kafka",
          &kafka->properties_file, "path of a file with lines NAME=VALUE");
  if (!kafka->properties_file.empty()) {
    ResolveInputFile(in, "properties_file", folder, &kafka->properties_file);
  }
}

void ReadColumns(MapReader& in, DataConfig* data) {
  const bool has_columns =
      data->format == Format::kCsv || data->format == Format::kJson || IsArrow(*data);
  const auto read_column = [&](MapReader& map) {
    ColumnConfig column;
    const bool is_csv = data->format == Format::kCsv;
    ReadColumn(map, !is_csv || data->csv.header || data->csv.finds_header, &column);
    ReadCells(map, data->format, &column);
    data->columns.push_back(column);
  };
  {
    const auto when = in.When(has_columns, "choose another format");
    in.Texts("missing_values",
             "texts of missing cells and list values, compared without surrounding blanks",
             &data->missing_values, {0, kMaxTexts}, Need::kOptional);
    // Required where the format does not have its own.
    in.Maps("columns",
            "columns, 1 to 16 of them labels, see Data files; not for `format: criteo`, `libsvm` "
            "and `libffm`",
            {has_columns && !in.describing() ? size_t{1} : size_t{0}, kMaxColumns}, read_column);
  }
  if (!data->columns.empty()) CheckColumnList(in, *data);
}

void ReadDerived(MapReader& in, const std::string& folder, std::vector<DerivedConfig>* derived) {
  in.Maps("derived", "dense columns computed by plug-ins, after those of the file",
          {0, kMaxColumns}, [&](MapReader& map) {
            DerivedConfig one;
            map.Name("name", "name of the derived column", &one.name, Need::kRequired);
            map.Texts("columns", "source columns, `id` or `dense`, passed as texts", &one.columns,
                      {1, kMaxColumns}, Need::kRequired, "names of columns");
            map.Integer("width", "values per row", &one.width, 1, kMaxDerivedWidth);
            ReadPlugin(map, folder, &one.plugin, nullptr);
            if (!map.describing() && one.plugin.path.empty()) {
              map.Error("plugin", "missing", "name the plug-in that makes the values");
            }
            derived->push_back(one);
          });
}

bool IsUsable(const ColumnConfig& column) {
  return column.kind == ColumnKind::kId || column.kind == ColumnKind::kDense;
}

// Checks the column that the key at `path` names.
void CheckSource(const std::string& path, const std::string& column,
                 const std::map<std::string, const ColumnConfig*>& column_of,
                 const std::vector<std::string>& usable, Diagnostics* diagnostics) {
  const auto found = column_of.find(column);
  if (found != column_of.end() && IsUsable(*found->second)) return;
  const std::string what =
      found == column_of.end()
          ? absl::StrCat("no column is named '", column, "'")
          : absl::StrCat("column '", column, "' is a ",
                         found->second->kind == ColumnKind::kLabel    ? "label"
                         : found->second->kind == ColumnKind::kWeight ? "weight"
                         : found->second->kind == ColumnKind::kGroup  ? "group"
                                                                      : "skip",
                         " column");
  diagnostics->Report(path, what, NearestRemedy("id or dense column", column, usable));
}

constexpr char kPairSeparator = ':';
constexpr std::string_view kInNumbers = "+-.";

// Returns why values and weights of the column cannot be separated, or an empty string.
std::string WeightProblem(char separator, const ColumnConfig& column, const DataConfig& data) {
  if (data.format == Format::kCriteo) return "the criteo format has no weights";
  if (HasPairs(data)) {
    return separator == kPairSeparator ? "" : "':' separates index and value in this format";
  }
  if (column.kind == ColumnKind::kDense) {
    return absl::StrCat("column '", column.name, "' is dense: its cells are single numbers");
  }
  if (data.format == Format::kCsv && separator == data.csv.separator) {
    return "the same as between columns";
  }
  if (separator == column.separator) {
    return absl::StrCat("the same as between the values of column '", column.name, "'");
  }
  if (kInNumbers.find(separator) != kInNumbers.npos) {
    return absl::StrCat("'", std::string(1, separator), "' occurs in numbers, and so in weights");
  }
  if (column.separator != '\0' && kInNumbers.find(column.separator) != kInNumbers.npos) {
    return absl::StrCat("the separator of column '", column.name, "', '",
                        std::string(1, column.separator),
                        "', occurs in numbers, and so in weights");
  }
  return "";
}

// Checks the format of the column that a feature reads.
void CheckCells(const std::string& path, const FeatureConfig& feature, const ColumnConfig& column,
                const DataConfig& data, Diagnostics* diagnostics) {
  if (feature.weight_separator != '\0') {
    const std::string problem = WeightProblem(feature.weight_separator, column, data);
    if (!problem.empty()) {
      diagnostics->Report(absl::StrCat(path, ".weight_separator"), problem,
                          "use another character between values and weights, or omit weights");
    }
  }
  const ProcessingConfig& processing = feature.processing;
  if (column.width > 1) {
    diagnostics->Report(absl::StrCat(path, ".column"),
                        absl::StrCat("column '", column.name, "' has ", column.width, " numbers"),
                        "choose another column");
  }
  if (processing.date != ProcessingConfig::Date::kNone && !column.date) {
    diagnostics->Report(absl::StrCat(path, ".date"),
                        absl::StrCat("column '", column.name, "' has no dates"),
                        "set kind: dense and date: true for the column, or leave it out");
  }
  if (column.kind != ColumnKind::kId) return;
  if (HasPairs(data) && processing.plugin.path.empty() &&
      (feature.columns.size() > 1 || processing.quantiles > 0)) {
    diagnostics->Report(absl::StrCat(path, feature.columns.empty() ? ".quantiles" : ".columns"),
                        "not for indices with values", "leave it out");
  }
  if (data.format != Format::kCriteo) return;
  if (processing.boundaries.empty() && processing.quantiles == 0) return;
  diagnostics->Report(absl::StrCat(path, processing.quantiles == 0 ? ".boundaries" : ".quantiles"),
                      absl::StrCat("column '", column.name, "' contains ids, not numbers"),
                      "choose one of I1 to I13, or leave it out");
}

// Reads the files and how to read them.
// may_be_fed: whether loaders, which may be programs, feed the training rows.
void ReadAllFiles(MapReader& in, const std::string& folder, bool may_be_fed, DataConfig* data) {
  const auto rows = in.For(kRows);
  const bool reads_files = !in.Has("kafka");
  {
    const auto when = in.When(reads_files, "remove data.kafka");
    ReadFiles(in, "train",
              "files to train on, in this order, also as patterns, see Data files; required "
              "without `kafka` and `loaders`",
              reads_files && !may_be_fed && !in.describing() ? 1 : 0, folder, data->format,
              &data->train);
  }
  {
    const auto training = in.For(Scope::kTraining);
    ReadFiles(in, "replay",
              "files of older rows, a sample of which is mixed into each epoch, see Replay", 0,
              folder, data->format, &data->replay);
    in.When(!data->replay.empty(), "set replay")
        ->Number("replay_share", "`replay`: share of the steps that train on older rows",
                 &data->replay_share, {0.0F, 0.9F, "number from 0 to 0.9"});
    ReadFiles(in, "validation", "files of evaluations during training", 0, folder, data->format,
              &data->validation);
    ReadFiles(in, "test", "files of the final evaluation, and of others without `validation`", 0,
              folder, data->format, &data->test);
  }
  in.For(Scope::kTraining)->Map("items", [&](MapReader& map) {
    ReadFiles(map, "files",
              "files of the items that a model of two towers chooses from, one row an item, see "
              "Items",
              in.Has("items") ? 1 : 0, folder, data->format, &data->items.files);
    map.Text("id", "column whose text names an item; none: the only id column of the item's tower",
             &data->items.id, "name of a column");
    map.Text("user", "column whose text names a user in evaluations; none: see Items",
             &data->items.user, "name of a column");
    std::vector<std::string> top = {"10", "20", "100"};
    const auto length_of = [](const std::string& text) {
      uint32_t length = 0;
      return absl::SimpleAtoi(text, &length) && length <= kMaxTop ? length : 0;
    };
    map.Texts("top",
              "lengths k of the lists of recall@k, hit_rate@k and ndcg@k, in ascending order", &top,
              {1, kMaxTops}, Need::kOptional, absl::StrCat("integers from 1 to ", kMaxTop),
              [&](const std::string& text) {
                return length_of(text) > 0 ? "" : absl::StrCat("'", text, "' is not a length");
              });
    data->items.top.clear();
    for (const std::string& text : top) data->items.top.push_back(length_of(text));
    if (!std::ranges::is_sorted(data->items.top, std::less_equal<>())) {
      map.Error("top", "not in ascending order", "order the lengths, each once");
    }
    map.Bool("exclude_seen",
             "whether evaluations leave out the items of the user's rows in `train`, see Items",
             &data->items.exclude_seen);
  });
  in.Choice<OnBadRow>(
      "on_bad_row",
      "reaction to a row that cannot be read: end the run, or skip and count it, see Data files",
      &data->on_bad_row, {{"fail", OnBadRow::kFail}, {"skip", OnBadRow::kSkip}});
  in.For(Scope::kTraining)
      ->When(data->on_bad_row == OnBadRow::kSkip, "set on_bad_row: skip")
      ->Number("max_bad_share", "`skip`: maximum share of bad rows among those read so far",
               &data->max_bad_share, kShare);
  in.Integer("fit_rows",
             "maximum number of rows of `train`, from the first, that statistics are computed "
             "from, see Statistics; 0: all",
             &data->fit_rows, 0, kMaxRows);
  in.For(Scope::kTraining)
      ->Integer("threads",
                "threads of a process that read and parse rows, see Data files; 0: one per "
                "processor, at most 4",
                &data->threads, 0, 256);
  in.Choice<OnChange>("on_change",
                      "reaction to a file that changes during the run: end the run, or log a "
                      "warning, see Data files",
                      &data->on_change, {{"fail", OnChange::kFail}, {"warn", OnChange::kWarn}});
}

// Reads the rows of a shuffled window. Few with many columns, whose rows need memory.
void ReadShuffle(MapReader& in, DataConfig* data) {
  constexpr uint64_t kMostRows = uint64_t{1} << 30;
  constexpr uint64_t kWindowRows = 65'536;
  constexpr uint64_t kCells = uint64_t{1} << 22;
  constexpr uint64_t kPairs = 64;  // Assumed pairs of a row.
  const uint64_t cells = HasPairs(*data) ? kPairs : ColumnsOf(*data).size();
  const bool is_stream =
      in.Has("kafka") ||
      std::ranges::any_of(data->train, [](const std::string& file) { return IsStream(file); });
  data->shuffle = is_stream ? 0 : std::min(kWindowRows, kCells / std::max<uint64_t>(cells, 1));
  in.For(kRows)
      ->When(!is_stream, "use files in place of the stream")
      ->Integer(
          "shuffle",
          "rows of a window in which `train` is shuffled each epoch, see Data files; 0: in order",
          &data->shuffle, 0, kMostRows,
          "65536, fewer with more than 64 columns; 0 with kafka and streams");
}

}  // namespace

void ReadData(MapReader& root, const std::string& folder, DataConfig* data) {
  const auto scope = root.For(kRows | Scope::kModel);
  const bool may_be_fed = root.Has("loaders");
  root.Map("data", [&](MapReader& in) {
    in.Choice<Format>("format", "format of files and records, see Data files", &data->format,
                      {{"csv", Format::kCsv},
                       {"criteo", Format::kCriteo},
                       {"parquet", Format::kParquet},
                       {"arrow", Format::kArrow},
                       {"json", Format::kJson},
                       {"libsvm", Format::kLibsvm},
                       {"libffm", Format::kLibffm}});
    in.For(kRows)->Map(
        "kafka", [&](MapReader& map) { ReadKafka(map, in.Has("kafka"), folder, &data->kafka); });
    ReadAllFiles(in, folder, may_be_fed, data);
    const bool is_csv = data->format == Format::kCsv;
    in.When(is_csv, "set format: csv")->Map("csv", [&](MapReader& map) {
      ReadCsv(map, &data->csv);
    });
    const bool is_criteo = data->format == Format::kCriteo;
    in.When(is_criteo, "set format: criteo")->Map("criteo", [&](MapReader& map) {
      map.Integer("labels", "number of label columns, named `label`, `label2` and so on",
                  &data->criteo.labels, 1, kMaxTasks);
      map.Bool("fit",
               "whether `I1` to `I13` are scaled by the training files' mean and deviation, see "
               "Statistics",
               &data->criteo.fit);
    });
    const bool is_libffm = data->format == Format::kLibffm;
    in.When(is_libffm, "set format: libffm")->Map("libffm", [&](MapReader& map) {
      map.Integer("fields",
                  "number of fields, which are columns named `field0`, `field1` and so on",
                  &data->libffm_fields, 1, kMaxFields, "required with `format: libffm`");
    });
    if (is_libffm && data->libffm_fields == 0 && !in.describing()) {
      in.Error("libffm.fields", "missing", "give the number of fields");
    }
    ReadColumns(in, data);
    if (HasPairs(*data)) data->columns = PairColumns(*data);
    ReadShuffle(in, data);
    ReadDerived(in, folder, &data->derived);
  });
}

void MoveColumns(YamlNode* document) {
  YamlNode* const data = FindKey(*document, "data");
  YamlNode* const csv = data == nullptr ? nullptr : FindKey(*data, "csv");
  if (csv == nullptr) return;
  std::vector<YamlNode> moved;
  for (const char* key : {"missing_values", "columns"}) {
    YamlNode* const found = FindKey(*csv, key);
    if (found == nullptr) continue;
    moved.push_back(std::move(*found));
    csv->items.erase(csv->items.begin() + (found - csv->items.data()));
  }
  std::ranges::move(moved, std::back_inserter(data->items));
}

void ExpandItems(YamlNode* document) {
  YamlNode* const data = FindKey(*document, "data");
  YamlNode* const items = data == nullptr ? nullptr : FindKey(*data, "items");
  if (items == nullptr) return;
  const bool is_list = items->kind == YamlNode::Kind::kList;
  if (!is_list && items->kind != YamlNode::Kind::kScalar) return;
  YamlNode files{.kind = YamlNode::Kind::kList,
                 .place = items->place,
                 .key = "files",
                 .key_place = items->key_place};
  if (is_list) {
    files.items = std::move(items->items);
  } else {
    files.items.push_back({.kind = YamlNode::Kind::kScalar,
                           .quoted = items->quoted,
                           .text = std::move(items->text),
                           .place = items->place});
  }
  items->kind = YamlNode::Kind::kMap;
  items->quoted = false;
  items->text.clear();
  items->items.clear();
  items->items.push_back(std::move(files));
}

std::vector<ColumnConfig> PairColumns(const DataConfig& data) {
  std::vector<ColumnConfig> columns{{.name = "label", .kind = ColumnKind::kLabel}};
  if (data.format == Format::kLibsvm) {
    columns.push_back(
        {.name = "features", .kind = ColumnKind::kId, .fit = !data.streams(), .separator = ' '});
  }
  for (uint32_t field = 0; field < data.libffm_fields; ++field) {
    columns.push_back({.name = absl::StrCat("field", field),
                       .kind = ColumnKind::kId,
                       .fit = !data.streams(),
                       .separator = ' '});
  }
  return columns;
}

std::vector<ColumnConfig> ColumnsOf(const DataConfig& data) {
  if (data.format != Format::kCriteo) return data.columns;
  const CriteoConfig& criteo = data.criteo;
  std::vector<ColumnConfig> columns;
  for (uint32_t i = 1; i <= criteo.labels; ++i) {
    columns.push_back(
        {.name = i == 1 ? "label" : absl::StrCat("label", i), .kind = ColumnKind::kLabel});
  }
  for (size_t i = 0; i < kCriteoDenseColumns; ++i) {
    columns.push_back({.name = absl::StrCat("I", i + 1),
                       .kind = ColumnKind::kDense,
                       .transform = Transform::kLog1p,
                       .mean = criteo.mean.empty() ? 0.0 : criteo.mean[i],
                       .stddev = criteo.stddev.empty() ? 1.0 : criteo.stddev[i],
                       .fit = criteo.fit});
  }
  for (size_t i = 1; i <= kCriteoIdColumns; ++i) {
    columns.push_back({.name = absl::StrCat("C", i), .kind = ColumnKind::kId});
  }
  return columns;
}

void CheckColumns(const ClusterConfig& config, Diagnostics* diagnostics) {
  const std::vector<ColumnConfig> columns = ColumnsOf(config.data);
  std::vector<std::string> usable;
  std::map<std::string, const ColumnConfig*> column_of;
  for (const ColumnConfig& column : columns) {
    column_of.emplace(column.name, &column);
    if (IsUsable(column)) usable.push_back(column.name);
  }
  std::set<std::string> used;
  for (const FeatureConfig& feature : config.features) {
    const std::vector<std::string> sources = feature.sources();
    for (size_t c = 0; c < sources.size(); ++c) {
      used.insert(sources[c]);
      const std::string key =
          feature.columns.empty() ? std::string(".column") : absl::StrCat(".columns.", c);
      CheckSource(absl::StrCat(feature.key, key), sources[c], column_of, usable, diagnostics);
    }
    const auto column = column_of.find(sources.front());
    if (column != column_of.end() && IsUsable(*column->second)) {
      CheckCells(feature.key, feature, *column->second, config.data, diagnostics);
    }
  }
  for (size_t i = 0; i < config.data.derived.size(); ++i) {
    const std::vector<std::string>& sources = config.data.derived[i].columns;
    for (size_t c = 0; c < sources.size(); ++c) {
      used.insert(sources[c]);
      CheckSource(absl::StrCat("data.derived.", i, ".columns.", c), sources[c], column_of, usable,
                  diagnostics);
    }
  }
  // Columns of formats that have their own cannot be skipped. A bad name leaves a column unused.
  if (config.data.format == Format::kCriteo || HasPairs(config.data) || !diagnostics->ok()) return;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].kind != ColumnKind::kId || used.contains(columns[i].name)) continue;
    diagnostics->Report(absl::StrCat("data.columns.", i),
                        absl::StrCat("no feature reads id column '", columns[i].name,
                                     "', whose name another feature has"),
                        "name it in a feature, or give it kind: skip");
  }
}

std::vector<std::string> NamedFiles(DataConfig::Format format, const std::string& path) {
  const bool is_arrow = format == Format::kParquet || format == Format::kArrow;
  std::error_code failed;
  return is_arrow && std::filesystem::is_directory(path, failed) ? ParquetFilesIn(path)
                                                                 : FilesOfPattern(path);
}

}  // namespace simurgh
