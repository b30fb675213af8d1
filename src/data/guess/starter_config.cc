#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "config/defaults.h"
#include "data/guess/data_guess.h"
#include "data/guess/quoted_yaml.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;
using Format = DataConfig::Format;

std::string Texts(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(QuotedYaml(text));
  return absl::StrCat("[", absl::StrJoin(quoted, ", "), "]");
}

// Returns a name, in quotes where YAML could read it as something else.
std::string NameText(const std::string& name) {
  constexpr std::array<std::string_view, 9> kWords = {"true", "false", "yes", "no", "on",
                                                      "off",  "null",  "y",   "n"};
  const bool is_plain = absl::ascii_isalpha(static_cast<unsigned char>(name[0])) &&
                        std::ranges::find(kWords, absl::AsciiStrToLower(name)) == kWords.end();
  return is_plain ? name : QuotedYaml(name);
}

constexpr char kWeight[] = "_weight";  // Ending of the first order's features and tables.

// A feature with its own table.
struct Feature {
  std::string name;
  std::string keys;  // Further keys, such as "column: age, quantiles: 16".
  bool is_frequent;  // There are many rows per value.
  uint64_t capacity;
  std::string comment;
  std::string item;  // A sequence has the table of this feature; empty: it is none.
  bool is_cross = false;
};

// Returns a capacity for four times the values, in a round number.
uint64_t CapacityOf(uint64_t distinct) {
  uint64_t capacity = 1'000;
  while (capacity < distinct * 4) capacity *= 10;
  return capacity;
}

// Returns the number of values in all training rows, if new ones stay as frequent as in the rows
// looked at.
uint64_t ExpectedDistinct(const ColumnGuess& column, const DataGuess& guess, uint64_t train_rows) {
  if (guess.is_whole || guess.rows == 0) return column.distinct;
  const double more = static_cast<double>(train_rows) / static_cast<double>(guess.rows);
  return static_cast<uint64_t>(static_cast<double>(column.distinct) * std::max(1.0, more));
}

// Returns the key of a column's ranges: known boundaries, or quantiles of the training data.
std::string RangesOf(const ColumnGuess& column) {
  if (column.boundaries.empty()) return absl::StrCat("quantiles: ", column.quantiles);
  return absl::StrCat("boundaries: [",
                      absl::StrJoin(column.boundaries, ", ",
                                    [](std::string* text, double boundary) {
                                      absl::StrAppendFormat(text, "%.9g", boundary);
                                    }),
                      "]");
}

std::vector<Feature> FeaturesOf(const DataGuess& guess, const StarterOptions& options) {
  const uint64_t train_rows = options.train_rows;
  std::set<std::string> taken;
  for (const ColumnGuess& column : guess.columns) taken.insert(column.config.name);
  const auto unique = [&](const std::string& name) {
    std::string other = name;
    while (!taken.insert(other).second) other += "x";
    return other;
  };
  const auto ids = static_cast<uint64_t>(std::ranges::count(
      guess.columns, Kind::kId, [](const ColumnGuess& column) { return column.config.kind; }));
  uint64_t left = options.max_features - std::min(ids, options.max_features);
  std::vector<Feature> features;
  const auto add = [&](const std::string& name, const std::string& keys, uint64_t distinct,
                       const std::string& comment) {
    constexpr uint64_t kManyRows = 10;  // Rows per value.
    features.push_back({.name = name,
                        .keys = keys,
                        .is_frequent = distinct * kManyRows <= train_rows,
                        .capacity = CapacityOf(distinct),
                        .comment = comment,
                        .item = ""});
  };
  for (const ColumnGuess& column : guess.columns) {
    const std::string& name = column.config.name;
    if (column.config.kind == Kind::kId) {
      const uint64_t distinct = ExpectedDistinct(column, guess, train_rows);
      // Features of the first order have the ending kWeight, so this one gets another name.
      const bool is_other = name.ends_with(kWeight);
      const bool is_sequence = !column.item.empty() && !is_other && !column.item.ends_with(kWeight);
      std::string keys = is_other ? absl::StrCat("column: ", NameText(name)) : "";
      if (is_sequence) {
        keys = absl::StrCat("table: ", NameText(column.item),
                            ", pooling: raw, max_length: ", column.max_length,
                            ", keep: last, mask: true");
      }
      add(is_other ? unique(name + "_id") : name, keys, distinct, "");
      if (is_sequence) features.back().item = column.item;
    }
    if (column.is_also_id && left > 0) {
      --left;
      add(unique(name + "_id"), absl::StrCat("column: ", NameText(name)),
          ExpectedDistinct(column, guess, train_rows), "");
    }
    if (column.config.date) {
      const std::string keys = absl::StrCat("column: ", NameText(name), ", date: ");
      const uint64_t parts = column.has_times ? 2 : 1;
      if (left >= parts) {
        left -= parts;
        if (column.has_times) add(unique(name + "_hour"), keys + "hour", 24, "");
        add(unique(name + "_weekday"), keys + "weekday", 7, "");
      }
    }
    if (column.quantiles > 0 && left > 0) {
      --left;
      add(unique(name + "_range"), absl::StrCat("column: ", NameText(name), ", ", RangesOf(column)),
          column.quantiles, "ranges with equally many rows");
    }
  }
  // src/data/README.md describes why crosses have the optimizer of rare values.
  for (const Cross& cross : guess.crosses) {
    if (left == 0) break;
    --left;
    const std::string& first = guess.columns[cross.first].config.name;
    const std::string& second = guess.columns[cross.second].config.name;
    constexpr size_t kMaxName = 50;
    std::string name = absl::StrCat(first, "_x_", second);
    if (name.size() > kMaxName || name.ends_with(kWeight)) name = "cross";
    const double rows =
        std::max(1.0, static_cast<double>(train_rows) / static_cast<double>(cross.rows));
    add(unique(name), absl::StrCat("columns: [", NameText(first), ", ", NameText(second), "]"),
        static_cast<uint64_t>(static_cast<double>(cross.distinct) * rows),
        absl::StrFormat("loss %.1f %% lower together", 100 * cross.share));
    features.back().is_cross = true;
  }
  // The table of a sequence and its item has room for the values of both.
  for (const Feature& sequence : features) {
    if (sequence.item.empty()) continue;
    Feature& item = *std::ranges::find(features, sequence.item, &Feature::name);
    item.capacity = std::max(item.capacity, sequence.capacity);
  }
  if (!features.empty()) return features;
  // A model needs embeddings.
  for (const ColumnGuess& column : guess.columns) {
    if (column.config.kind != Kind::kDense || column.config.width > 1) continue;
    add(unique(column.config.name + "_id"), absl::StrCat("column: ", NameText(column.config.name)),
        column.distinct, "numbers as texts");
    break;
  }
  return features;
}

// Returns "  - {...}", with a comment in the same line if there is room.
std::string Entry(std::string_view indent, const std::string& keys, const std::string& comment) {
  constexpr size_t kWidth = 100;
  const std::string entry = absl::StrCat(std::string(indent), "- {", keys, "}");
  if (comment.empty()) return entry + "\n";
  if (entry.size() + 4 + comment.size() <= kWidth)
    return absl::StrCat(entry, "  # ", comment, "\n");
  return absl::StrCat(std::string(indent), "# ", comment, "\n", entry, "\n");
}

std::string Services(const StarterOptions& options) {
  const auto& ports = options.ports;
  return absl::StrCat(
      "cluster: {name: ", NameText(options.cluster), ", seed: 1}\n\n",
      "# Daemons. They listen on this machine only; metrics answer `curl HOST:PORT/metrics`.\n"
      "embedding_ps:  # Parameter servers, which hold the rows. Several share the memory and "
      "work.\n"
      "  partitions: 2  # threads\n"
      "  instances:\n    - {address: \"127.0.0.1:",
      ports[0], "\", metrics: \"127.0.0.1:", ports[1],
      "\"}\n"
      "embedding_worker:  # It pools the rows of a batch.\n"
      "  instances:\n    - {address: \"127.0.0.1:",
      ports[2], "\", metrics: \"127.0.0.1:", ports[3],
      "\"}\n"
      "nn_worker:  # It reads the data and computes the dense network.\n"
      "  instances:\n    - {address: \"127.0.0.1:",
      ports[4], "\", metrics: \"127.0.0.1:", ports[5], "\"}\n");
}

uint64_t BatchOf(uint64_t rows) {
  return std::clamp<uint64_t>(rows, 2, CourseFor(rows).batch_size);
}

// Returns an entry for the tables of each capacity, all with the same settings.
std::string TablesOf(const std::map<uint64_t, std::vector<std::string>>& names_by_capacity,
                     const std::string& settings) {
  std::string text;
  for (const auto& [capacity, names] : names_by_capacity) {
    text += "  - names:\n";
    for (const std::string& name : names) absl::StrAppend(&text, "      - ", NameText(name), "\n");
    absl::StrAppend(&text, "    capacity_rows: ", capacity, "\n", settings);
  }
  return text;
}

// Returns the section `tables`. src/data/README.md describes how the settings were chosen.
std::string Tables(const std::vector<Feature>& features, uint64_t train_rows) {
  std::map<uint64_t, std::vector<std::string>> frequent;
  std::map<uint64_t, std::vector<std::string>> rare;
  std::map<uint64_t, std::vector<std::string>> weights;
  const Course& course = CourseFor(train_rows);
  for (const Feature& feature : features) {
    const bool is_rare = course.are_all_rare || !feature.is_frequent || feature.is_cross;
    if (feature.item.empty()) {
      (is_rare ? rare : frequent)[feature.capacity].push_back(feature.name);
    }
    weights[feature.capacity].push_back(feature.name + kWeight);
  }
  const double factor = RateFactor(features.size());
  const double deviation = DeviationFactor(features.size());
  const SparseOptimizerConfig first =
      FirstOrderOptimizer(BatchOf(train_rows), course.rate * factor);
  return absl::StrCat(
      "\n# Tables of rows, two for each feature: vectors for products and the deep part, and the\n"
      "# weights of the first order. A full table evicts the row that is unused for longest.\n"
      "tables:\n",
      TablesOf(frequent, absl::StrFormat("    dim: 8\n"
                                         "    initializer: {kind: normal, stddev: %.3g}\n"
                                         "    optimizer: {kind: adagrad, learning_rate: %.3g}\n",
                                         0.05 * deviation, 0.05 * course.rate * factor)),
      TablesOf(rare, absl::StrFormat("    dim: 8\n"
                                     "    initializer: {kind: normal, stddev: %.3g}\n"
                                     "    optimizer: {kind: adam, learning_rate: %.3g}\n",
                                     0.01 * deviation, course.rare_rate * factor)),
      TablesOf(weights, absl::StrFormat("    dim: 1\n"
                                        "    initializer: {kind: zero}\n"
                                        "    optimizer: {kind: ftrl, learning_rate: %.3g, beta: "
                                        "%.4g, l2: %.4g, initial_accumulator: 0}\n",
                                        first.learning_rate, first.beta, first.l2)));
}

std::string Features(const std::vector<Feature>& features) {
  std::string text =
      "\n# Each value of a feature has a row in the table of the same name, new values, too. The\n"
      "# column has that name, unless `column` is given.\n"
      "features:\n";
  for (const Feature& feature : features) {
    text += Entry("  ",
                  absl::StrCat("name: ", NameText(feature.name), feature.keys.empty() ? "" : ", ",
                               feature.keys),
                  feature.comment);
  }
  return text;
}

std::string NumberKeys(const NumberFormat& numbers) {
  std::string keys = numbers.decimal == ',' ? ", decimal: comma" : "";
  switch (numbers.thousands) {
    case ',':
      return keys + ", thousands: comma";
    case '.':
      return keys + ", thousands: point";
    case '\'':
      return keys + ", thousands: apostrophe";
    case ' ':
      return keys + ", thousands: blank";
    default:
      return keys;
  }
}

// Returns the keys of a column. is_for_stream: statistics are those of the sample.
std::string Keys(const ColumnConfig& column, bool is_for_stream) {
  std::string keys = absl::StrCat("name: ", NameText(column.name));
  if (!column.header_name.empty()) {
    absl::StrAppend(&keys, ", header_name: ", QuotedYaml(column.header_name));
  }
  switch (column.kind) {
    case Kind::kLabel:
      keys += ", kind: label";
      if (!column.positive.empty()) {
        absl::StrAppend(&keys, ", positive: ", Texts(column.positive),
                        ", negative: ", Texts(column.negative));
      }
      keys += NumberKeys(column.numbers);
      break;
    case Kind::kDense:
      keys += ", kind: dense";
      if (column.date) keys += ", date: true";
      if (column.date_order == DateOrder::kDayFirst) keys += ", date_order: day_first";
      if (column.date_order == DateOrder::kMonthFirst) keys += ", date_order: month_first";
      if (column.width > 1) {
        absl::StrAppend(&keys, ", width: ", column.width);
        if (column.separator != '\0') {
          absl::StrAppend(&keys, ", separator: ", QuotedYaml(std::string(1, column.separator)));
        }
      } else if (is_for_stream) {
        absl::StrAppendFormat(&keys, ", mean: %.9g, stddev: %.9g", column.mean, column.stddev);
      } else {
        keys += ", fit: true";
      }
      if (column.transform == ColumnConfig::Transform::kLog1p) keys += ", transform: log1p";
      if (column.missing != 0) absl::StrAppendFormat(&keys, ", missing: %.6g", column.missing);
      keys += NumberKeys(column.numbers);
      if (column.integers) keys += ", integers: true";
      break;
    case Kind::kId:
      keys += ", kind: id";
      if (column.separator != '\0') {
        absl::StrAppend(&keys, ", separator: ", QuotedYaml(std::string(1, column.separator)));
      }
      if (column.integers) keys += ", integers: true";
      break;
    case Kind::kWeight:
      keys += ", kind: weight" + NumberKeys(column.numbers);
      break;
    case Kind::kSkip:
    case Kind::kGroup:  // This kind is never guessed.
      keys += ", kind: skip";
      break;
  }
  return keys;
}

std::string FormatKeys(const DataGuess& guess) {
  switch (guess.table.format) {
    case Format::kJson:
      return "  format: json  # an object in each line\n";
    case Format::kLibsvm:
      return "  format: libsvm\n";
    case Format::kLibffm:
      return absl::StrCat("  format: libffm\n  libffm: {fields: ", guess.table.libffm_fields,
                          "}\n");
    case Format::kCriteo:
      return absl::StrCat(
          "  format: criteo  # columns label, I1 to I13, C1 to C26\n"
          "  # `fit` scales numbers by the mean and deviation of the training data.\n"
          "  criteo: {labels: ",
          guess.table.criteo.labels, ", fit: true}\n");
    case Format::kCsv:
    case Format::kParquet:
    case Format::kArrow:
      return absl::StrCat("  csv: {separator: ", QuotedYaml(std::string(1, guess.separator)),
                          ", header: true}\n");
  }
  return "";
}

std::string Data(const DataGuess& guess, const StarterOptions& options) {
  std::string text = absl::StrCat(
      "\n# Paths are relative to the folder of this file. Files may be compressed by gzip or "
      "zstd.\n"
      "data:\n");
  if (!options.topics.empty()) {
    text =
        absl::StrCat("\n# The value of each record is a JSON object.\ndata:\n  kafka: {brokers: ",
                     Texts(options.brokers), ", topics: ", Texts(options.topics), "}\n");
  } else {
    absl::StrAppend(&text, "  train: [", QuotedYaml(options.train), "]\n");
  }
  if (!options.validation.empty()) {
    absl::StrAppend(&text, "  validation: [", QuotedYaml(options.validation), "]\n");
  }
  if (!options.test.empty()) absl::StrAppend(&text, "  test: [", QuotedYaml(options.test), "]\n");
  if (options.has_bad_rows) {
    text += "  on_bad_row: skip  # rows that cannot be read; the log has the first ones\n";
    text += "  max_bad_share: 0.02  # of the rows read so far\n";
  }
  text += FormatKeys(guess);
  if (guess.table.format == Format::kCriteo || HasPairs(guess.table)) return text;
  absl::StrAppend(&text, "  missing_values: ", Texts(guess.missing_values),
                  options.topics.empty()
                      ? "\n  # `fit` scales numbers by the mean and deviation of the training "
                        "data."
                      : "\n  # Numbers are scaled by the mean and deviation of the sample.",
                  " `missing` is read for a\n  # missing number.\n  columns:\n");
  for (size_t i = 0; i < guess.columns.size(); ++i) {
    const ColumnGuess& column = guess.columns[i];
    // Columns of Arrow data that CSV cannot express are empty in the copies.
    if (IsArrow(guess.table) && guess.table.columns[i].kind == Kind::kSkip) continue;
    text += Entry("    ", Keys(column.config, !options.topics.empty()), column.reason);
  }
  return text;
}

// Returns the section `model`. The second order needs two features.
std::string Model(const std::vector<Feature>& features) {
  const bool has_pairs = features.size() > 1;
  std::vector<std::string> attention;
  for (const Feature& feature : features) {
    if (feature.item.empty()) continue;
    attention.push_back(absl::StrCat("{sequence: ", NameText(feature.name),
                                     ", query: ", NameText(feature.item), "}"));
  }
  return absl::StrCat(
      "\n# The sum of a weight for each value", has_pairs ? ", products of vectors" : "",
      " and a deep network.\n",
      attention.empty() ? ""
                        : "# By attention, those values of a sequence count that matter for the "
                          "query.\n",
      "model:\n  ", has_pairs ? "deepfm" : "wide_deep", ": {",
      attention.empty() ? "" : absl::StrCat("attention: [", absl::StrJoin(attention, ", "), "], "),
      "deep: [{linear: 256}, relu, {linear: 128}, relu]}\n");
}

// Returns the optimizer of dense weights. src/data/README.md describes when its rate falls.
std::string DenseOptimizer(const std::vector<Feature>& features, const StarterOptions& options) {
  const uint64_t rows = options.train_rows;
  const Course& course = CourseFor(rows);
  const bool has_rare_values = std::ranges::any_of(
      features, [](const Feature& one) { return !one.is_frequent && !one.is_cross; });
  if (!course.falls_with_rare_values || !has_rare_values || !options.topics.empty()) {
    return absl::StrFormat(
        "  dense_optimizer: {kind: adam, learning_rate: %g, average_decay: 0.999}\n",
        0.001 * course.rate);
  }
  return absl::StrFormat(
      "  dense_optimizer:\n"
      "    kind: adam\n"
      "    learning_rate: %g\n"
      "    average_decay: 0.999\n"
      "    # Rare ids: the deep network soon learns them by heart. Each epoch halves its rate.\n"
      "    schedule: {kind: exponential, decay_steps: %d, decay_factor: 0.5, end_factor: 0.2}\n",
      0.001 * course.rate, std::max<uint64_t>(1, rows / BatchOf(rows)));
}

// Returns the keys of the loss, which follow from the label.
std::string Loss(const DataGuess& guess) {
  if (guess.label().config.label_values == ColumnConfig::LabelValues::kBinary) return "";
  return "  # The label is a number; `poisson` suits counts. Training is fastest with labels of a\n"
         "  # deviation near 1.\n"
         "  loss: {kind: squared_error}\n";
}

std::string Training(const DataGuess& guess, const std::vector<Feature>& features,
                     const StarterOptions& options) {
  const uint64_t rows = options.train_rows;
  std::string text =
      absl::StrCat("\n# For ", rows, " rows.\ntraining:\n  batch_size: ", BatchOf(rows), "\n");
  if (!options.topics.empty()) {
    text = absl::StrCat("\ntraining:\n  batch_size: ", BatchOf(rows),
                        "\n  epochs: 0  # until it is stopped\n");
  } else if (options.validation.empty()) {
    absl::StrAppend(&text, "  epochs: ", CourseFor(rows).epochs_unchecked, "\n");
  } else {
    absl::StrAppend(&text, "  epochs: ", CourseFor(rows).epochs,
                    "  # at most\n  evaluate_every_epochs: 1\n  early_stopping: {patience: ",
                    CourseFor(rows).patience,
                    "}  # epochs without a better result of `validation`\n");
  }
  text += DenseOptimizer(features, options);
  if (!guess.group_feature.empty()) {
    const std::string& name = guess.group_feature;
    absl::StrAppend(
        &text, "  auc_group_feature: ", NameText(name.ends_with(kWeight) ? name + "_id" : name),
        "  # for `group_auc` of evaluations\n");
  }
  return text;
}

}  // namespace

std::string StarterConfig(const DataGuess& guess, const StarterOptions& options) {
  const std::vector<Feature> features = FeaturesOf(guess, options);
  return absl::StrCat(
      "# Written by `simurgh init` for ", options.source,
      ".\n# All keys: config/README.md. `simurgh train FILE --set training.epochs=5` overrides a "
      "key.\n",
      Services(options), Tables(features, options.train_rows), Features(features),
      Data(guess, options), Model(features), Loss(guess), Training(guess, features, options),
      "\n# Training continues from the newest model in the folder; predictions use the best "
      "one.\ncheckpoint:\n  directory: ",
      QuotedYaml(options.model), "\n  every: 10m\n");
}

}  // namespace simurgh
