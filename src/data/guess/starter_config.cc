#include "simurgh/data/starter_config.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;

// A YAML text in double quotes.
std::string Text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (static_cast<unsigned char>(c) < ' ') {
      absl::StrAppendFormat(&quoted, "\\x%02x", c);
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

std::string Texts(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(Text(text));
  return absl::StrCat("[", absl::StrJoin(quoted, ", "), "]");
}

// A name, in quotes where YAML could read it as something else.
std::string NameText(const std::string& name) {
  constexpr std::array<std::string_view, 9> kWords = {"true", "false", "yes", "no", "on",
                                                      "off",  "null",  "y",   "n"};
  const bool is_plain = absl::ascii_isalpha(static_cast<unsigned char>(name[0])) &&
                        std::ranges::find(kWords, absl::AsciiStrToLower(name)) == kWords.end();
  return is_plain ? name : Text(name);
}

// A feature with its own table.
struct Feature {
  std::string name;
  std::string keys;  // "column: age, quantiles: 16".
  uint32_t dim;
  uint64_t capacity;
  std::string comment;
};

// More values need more weights to be told apart, and are seen less often each.
uint32_t DimOf(uint64_t distinct) {
  constexpr uint64_t kFew = 8;
  constexpr uint64_t kMany = 10'000;
  if (distinct <= kFew) return 4;
  return distinct <= kMany ? 8 : 16;
}

// Room for four times the values, in a round number.
uint64_t CapacityOf(uint64_t distinct) {
  uint64_t capacity = 1'000;
  while (capacity < distinct * 4) capacity *= 10;
  return capacity;
}

// Values of all training rows, if new ones are as frequent after the rows looked at.
uint64_t ExpectedDistinct(const ColumnGuess& column, const CsvGuess& guess, uint64_t train_rows) {
  if (guess.is_whole || guess.rows == 0) return column.distinct;
  const double more = static_cast<double>(train_rows) / static_cast<double>(guess.rows);
  return static_cast<uint64_t>(static_cast<double>(column.distinct) * std::max(1.0, more));
}

std::vector<Feature> FeaturesOf(const CsvGuess& guess, uint64_t train_rows) {
  std::set<std::string> taken;
  for (const ColumnGuess& column : guess.columns) taken.insert(column.config.name);
  const auto unique = [&](const std::string& name) {
    std::string other = name;
    while (!taken.insert(other).second) other += "x";
    return other;
  };
  std::vector<Feature> features;
  const auto add = [&](const std::string& name, const std::string& keys, uint64_t distinct,
                       const std::string& comment) {
    features.push_back({name, keys, DimOf(distinct), CapacityOf(distinct), comment});
  };
  for (const ColumnGuess& column : guess.columns) {
    const std::string& name = column.config.name;
    if (column.config.kind == Kind::kId) {
      const uint64_t distinct = ExpectedDistinct(column, guess, train_rows);
      if (column.vocabulary.empty()) {
        add(name, "", distinct, "");
      } else {
        add(name, absl::StrCat("vocabulary: ", Texts(column.vocabulary)), distinct, "");
      }
    } else if (column.is_also_id) {
      add(unique(name + "_id"), absl::StrCat("column: ", NameText(name)), column.distinct, "");
    } else if (column.quantiles > 0) {
      add(unique(name + "_range"),
          absl::StrCat("column: ", NameText(name), ", quantiles: ", column.quantiles),
          column.quantiles, "ranges with equally many rows");
    }
  }
  if (!features.empty()) return features;
  // A model needs embeddings.
  for (const ColumnGuess& column : guess.columns) {
    if (column.config.kind != Kind::kDense) continue;
    add(unique(column.config.name + "_id"), absl::StrCat("column: ", NameText(column.config.name)),
        column.distinct, "numbers as texts");
    break;
  }
  return features;
}

bool HasDense(const CsvGuess& guess) {
  return std::ranges::any_of(
      guess.columns, [](const ColumnGuess& column) { return column.config.kind == Kind::kDense; });
}

// "  - {...}", with a comment in the same line if there is room.
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
      "cluster: {name: ", options.cluster, ", seed: 1}\n\n",
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

std::string Tables(const std::vector<Feature>& features) {
  std::string text =
      "\n# Tables of rows, one for each feature. A row has `dim` weights. A full table evicts the\n"
      "# row that is unused for longest.\n"
      "tables:\n";
  std::map<std::pair<uint32_t, uint64_t>, std::vector<std::string>> groups;
  for (const Feature& feature : features) {
    groups[{feature.dim, feature.capacity}].push_back(feature.name);
  }
  for (const auto& [layout, names] : groups) {
    text += "  - names:\n";
    for (const std::string& name : names) absl::StrAppend(&text, "      - ", NameText(name), "\n");
    absl::StrAppend(&text, "    dim: ", layout.first, "\n    capacity_rows: ", layout.second,
                    "\n    optimizer: {kind: adagrad, learning_rate: 0.05}\n");
  }
  return text;
}

std::string Features(const std::vector<Feature>& features) {
  std::string text =
      "\n# Each value of a feature has a row in the table of the same name. The column has that\n"
      "# name, too, unless `column` is given. With a vocabulary, other texts read as missing.\n"
      "features:\n";
  for (const Feature& feature : features) {
    text += Entry("  ",
                  absl::StrCat("name: ", NameText(feature.name), feature.keys.empty() ? "" : ", ",
                               feature.keys),
                  feature.comment);
  }
  return text;
}

std::string Keys(const ColumnConfig& column) {
  std::string keys = absl::StrCat("name: ", NameText(column.name));
  if (!column.header_name.empty()) {
    absl::StrAppend(&keys, ", header_name: ", Text(column.header_name));
  }
  switch (column.kind) {
    case Kind::kLabel:
      keys += ", kind: label";
      if (!column.positive.empty()) {
        absl::StrAppend(&keys, ", positive: ", Texts(column.positive),
                        ", negative: ", Texts(column.negative));
      }
      break;
    case Kind::kDense:
      keys += ", kind: dense, fit: true";
      if (column.transform == ColumnConfig::Transform::kLog1p) keys += ", transform: log1p";
      if (column.missing != 0) absl::StrAppendFormat(&keys, ", missing: %.6g", column.missing);
      break;
    case Kind::kId:
      keys += ", kind: id";
      if (column.separator != '\0') {
        absl::StrAppend(&keys, ", separator: ", Text(std::string(1, column.separator)));
      }
      break;
    case Kind::kSkip:
    case Kind::kWeight:
    case Kind::kGroup:  // Never guessed.
      keys += ", kind: skip";
      break;
  }
  return keys;
}

std::string Data(const CsvGuess& guess, const StarterOptions& options) {
  std::string text = absl::StrCat(
      "\n# Paths are relative to the folder of this file. Files may be compressed by gzip or "
      "zstd.\n"
      "data:\n  train: [",
      Text(options.train), "]\n  test: [", Text(options.test), "]\n");
  if (options.has_bad_rows) {
    text += "  on_bad_row: skip  # rows that cannot be read; the log has the first ones\n";
    text += "  max_bad_share: 0.02  # of the rows read so far\n";
  }
  absl::StrAppend(&text, "  csv: {separator: ", Text(std::string(1, guess.separator)),
                  ", header: true}\n  missing_values: ", Texts(guess.missing_values),
                  "\n  # `fit` scales numbers by the mean and deviation of the training data. "
                  "`missing` is read "
                  "for a\n  # missing number.\n  columns:\n");
  for (const ColumnGuess& column : guess.columns) {
    text += Entry("    ", Keys(column.config), column.reason);
  }
  return text;
}

std::string Model(const CsvGuess& guess) {
  std::string text =
      "\n# The dense network: one tower over the numbers, one over the embeddings, and one over "
      "both.\n"
      "model:\n  towers:\n";
  if (!HasDense(guess)) {
    return "\n# The dense network.\nmodel:\n  towers:\n"
           "    - name: top\n      input: embeddings\n"
           "      layers: [{linear: 128}, batch_norm, relu, {linear: 64}, relu, {linear: 1}]\n";
  }
  return text +
         "    - {name: bottom, input: dense, layers: [{linear: 16}, batch_norm, relu]}\n"
         "    - {name: sparse, input: embeddings, layers: [{linear: 128}, batch_norm, relu]}\n"
         "    - name: top\n      input: [bottom, sparse]\n"
         "      layers: [{linear: 128}, relu, {linear: 64}, relu, {linear: 1}]\n";
}

// What follows from the label.
std::string Loss(const CsvGuess& guess) {
  if (guess.label().config.label_values == ColumnConfig::LabelValues::kBinary) return "";
  return "  # The label is a number; `poisson` suits counts. Training is fastest with labels of a\n"
         "  # deviation near 1.\n"
         "  loss: {kind: squared_error}\n";
}

// Few rows need small batches and several epochs for enough steps.
std::string Training(uint64_t rows) {
  struct Size {
    uint64_t below;
    uint32_t batch;
    uint32_t epochs;
  };
  constexpr Size kSizes[] = {{200, 8, 10},      {2'000, 16, 5},      {10'000, 32, 2},
                             {100'000, 128, 3}, {1'000'000, 256, 2}, {UINT64_MAX, 1'024, 1}};
  const Size& size =
      *std::ranges::find_if(kSizes, [&](const Size& one) { return rows < one.below; });
  const uint64_t batch = std::clamp<uint64_t>(rows, 2, size.batch);
  return absl::StrCat("\n# For ", rows, " rows.\ntraining:\n  batch_size: ", batch,
                      "\n  epochs: ", size.epochs,
                      "\n  dense_optimizer: {kind: adam, learning_rate: 0.001}\n");
}

}  // namespace

std::string StarterConfig(const CsvGuess& guess, const StarterOptions& options) {
  const std::vector<Feature> features = FeaturesOf(guess, options.train_rows);
  return absl::StrCat(
      "# Written by `simurgh init` for ", options.source,
      ".\n# All keys: config/README.md. `simurgh train FILE --set training.epochs=5` overrides a "
      "key.\n",
      Services(options), Tables(features), Features(features), Data(guess, options), Model(guess),
      Loss(guess), Training(options.train_rows),
      "\n# Training continues from the newest model in the folder.\ncheckpoint:\n  directory: ",
      Text(options.model), "\n  every: 10m\n");
}

}  // namespace simurgh
