#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/feature_config.h"

namespace simurgh {

// Maximum number of labels of a sample.
inline constexpr uint32_t kMaxTasks = 16;

// Columns of the Criteo layout: labels, integers I1 to I13, hexadecimal ids C1 to C26, separated by
// tabs. Only labels are required. Source: readme of the Criteo display advertising challenge data,
// Criteo AI Lab, 2014.
inline constexpr size_t kCriteoDenseColumns = 13;
inline constexpr size_t kCriteoIdColumns = 26;

// Notation of a column's numbers, besides digits, signs, currencies and percent signs.
struct NumberFormat {
  char decimal = '.';     // Character before the decimals.
  char thousands = '\0';  // Character between groups of three digits; 0: none.

  bool operator==(const NumberFormat&) const = default;
};

// Scale of the values of one index of libsvm or libffm.
struct ValueScale {
  double mean = 0;
  double stddev = 1;  // > 0

  bool operator==(const ValueScale&) const = default;
};

// The order of the parts of a date. Every order accepts 2024-01-31.
enum class DateOrder { kYearFirst, kDayFirst, kMonthFirst };

// One column of the data.
struct ColumnConfig {
  // kWeight: weight of the sample. kGroup: its text groups samples for their AUC.
  enum class Kind { kLabel, kDense, kId, kSkip, kWeight, kGroup };
  enum class Transform { kNone, kLog1p };
  enum class LabelValues { kBinary, kNumbers, kCounts };  // kCounts: numbers of at least 0.

  std::string name;
  Kind kind = Kind::kSkip;
  std::string header_name = {};  // Name in headers and records; empty: `name`; see HeaderName().
  // label: texts that mean 1. Empty: the cell is 0 or 1.
  std::vector<std::string> positive = {};
  // label: texts that mean 0. Empty: all that are neither in `positive` nor missing.
  std::vector<std::string> negative = {};
  LabelValues label_values = LabelValues::kBinary;  // label: follows from the loss of its task.
  double missing = 0.0;                             // dense: value of a missing cell.
  // dense: (transform(x) - mean) / stddev. log1p: sign(x) * log(1 + |x|).
  Transform transform = Transform::kNone;
  double mean = 0.0;
  double stddev = 1.0;  // > 0
  bool fit = false;     // dense: compute mean and stddev from the training files.
  // id of libsvm and libffm, with `fit`: scales of the indices whose values are large, by index.
  std::map<uint64_t, ValueScale> value_scales = {};
  // Character between the ids of a cell, or the numbers of one with a width above 1; 0: one id.
  char separator = '\0';
  NumberFormat numbers = {};  // dense, label and weight.
  bool integers = false;      // id and dense: ids are integers; see IntegerText().
  bool date = false;          // dense: a point in time, whose number is the days since 1970.
  DateOrder date_order = DateOrder::kYearFirst;  // Applies with `date`.
  uint32_t width = 1;  // dense: numbers of a cell, with `separator` between them.
  bool may_lack =
      false;  // Files may lack the column, whose cells are then missing. No key sets it.
};

// Returns whether the column's texts are converted to numbers, rather than used as written.
inline bool IsConverted(const ColumnConfig& column) {
  return column.date || column.numbers != NumberFormat();
}

// Returns whether only training and evaluation need a column of this kind.
inline bool IsTarget(ColumnConfig::Kind kind) {
  return kind == ColumnConfig::Kind::kLabel || kind == ColumnConfig::Kind::kWeight ||
         kind == ColumnConfig::Kind::kGroup;
}

struct CsvConfig {
  char separator = ',';
  bool header = false;  // The first line of each file has names, by which columns are found.
  // Without `header`: decide by the first line of the first file; see Data files.
  bool finds_header = false;
  bool strict = false;  // Whether other columns in a header are an error.
};

struct CriteoConfig {
  uint32_t labels = 1;  // Label columns, 1 to kMaxTasks.
  bool fit = false;     // Scale I1..I13, after the log, by the training files' mean and deviation.
  // Shape: (13), or empty for 0 and 1.
  std::vector<double> mean;
  std::vector<double> stddev;
};

// Topics of Apache Kafka: the value of each record is a row.
struct KafkaConfig {
  enum class Start { kEarliest, kLatest };

  std::vector<std::string> brokers;  // host:port
  std::vector<std::string> topics;   // Topics to read; none: files are read.
  Start start = Start::kEarliest;    // Where partitions without a position start.
  bool stop_at_end = false;  // Training ends with the records that are there when it begins.
  bool skip_lost = false;    // Whether reading goes on after records that the brokers deleted.
  std::map<std::string, std::string> properties = {};  // Properties of librdkafka, by name.
  std::string properties_file;                         // File of further properties; may be empty.
};

// Dense values that a plug-in computes from other columns. They follow those of the file.
struct DerivedConfig {
  std::string name;
  std::vector<std::string> columns;  // Id or dense columns.
  uint32_t width = 1;                // Values per row.
  PluginConfig plugin;
};

// The items that a model of two towers chooses from, and how evaluations rank them.
struct ItemsConfig {
  std::vector<std::string> files = {};  // One row an item, in the format of the data; none: unset.
  std::string id = {};                  // Column whose text names an item.
  // Column whose text names a user in evaluations. Empty: the column of kind kGroup, or without one
  // a row's inputs of the user's tower.
  std::string user = {};
  std::vector<uint32_t> top = {10, 20, 100};  // Lengths of the lists of metrics, ascending.
  bool exclude_seen = false;  // Evaluations leave out the items of the user's training rows.
};

// YAML section `data`. Paths are absolute or relative to the YAML file.
struct DataConfig {
  enum class Format { kCsv, kCriteo, kJson, kLibsvm, kLibffm, kParquet, kArrow };
  enum class OnBadRow { kFail, kSkip };
  enum class OnChange { kFail, kWarn };

  Format format = Format::kCsv;
  CsvConfig csv;
  CriteoConfig criteo;
  KafkaConfig kafka;
  uint32_t libffm_fields = 0;  // Fields 0 to libffm_fields - 1, each a column.
  // The columns; of CSV files without a header, in their order. None with `criteo`; PairColumns()
  // with `libsvm` and `libffm`.
  std::vector<ColumnConfig> columns;
  std::vector<std::string> missing_values = {""};  // Cells (blanks trimmed) that read as missing.
  std::vector<DerivedConfig> derived;
  uint64_t fit_rows = uint64_t{1} << 20;  // Rows of `train` for statistics; 0: all.
  std::vector<std::string> train;         // Read in this order.
  std::vector<std::string> replay = {};   // Older rows, mixed into those of `train`.
  double replay_share = 0.2;              // Share of the steps that train on rows of `replay`.
  // Files for evaluations during training; empty: the test files.
  std::vector<std::string> validation;
  std::vector<std::string> test;
  ItemsConfig items = {};
  // Rows of a window of `train` in which an epoch's rows are shuffled; 0: they are not.
  uint64_t shuffle = 0;
  OnBadRow on_bad_row = OnBadRow::kFail;  // It ends the run, or is skipped and counted.
  // kSkip: maximum share of bad rows among those that a reader has read, but at least 1,000.
  double max_bad_share = 0.01;
  uint32_t threads = 0;  // Reading threads; 0: one for each processor, at most 4.
  OnChange on_change =
      OnChange::kFail;  // A file that changes during the run: an error, or a log line.

  // Returns whether training reads a stream in place of `train`.
  bool streams() const { return !kafka.topics.empty(); }
};

// Returns the column's name in headers and records.
inline const std::string& HeaderName(const ColumnConfig& column) {
  return column.header_name.empty() ? column.name : column.header_name;
}

// Returns whether libsimurgh_arrow.so reads the data.
inline bool IsArrow(const DataConfig& data) {
  return data.format == DataConfig::Format::kParquet || data.format == DataConfig::Format::kArrow;
}

// Returns whether the path can be read only once: standard input, or the socket of `unix:PATH`.
inline bool IsStream(std::string_view path) {
  return path == "-" || path == "/dev/stdin" || path.starts_with("unix:");
}

// Returns the files of a pattern or, for Parquet and Arrow data, of a folder, in order of their
// names. Another path names itself.
std::vector<std::string> NamedFiles(DataConfig::Format format, const std::string& path);

// Returns whether the values of id columns are index:value pairs.
inline bool HasPairs(const DataConfig& data) {
  return data.format == DataConfig::Format::kLibsvm || data.format == DataConfig::Format::kLibffm;
}

// Returns the columns of libsvm, `label` and `features`, or of libffm, `label`, `field0`,
// `field1`, ... Requires HasPairs().
std::vector<ColumnConfig> PairColumns(const DataConfig& data);

// Returns the configured columns of a file; without a header, in its order.
std::vector<ColumnConfig> ColumnsOf(const DataConfig& data);

}  // namespace simurgh
