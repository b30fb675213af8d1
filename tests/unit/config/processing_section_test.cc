#include <algorithm>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "config/sections.h"
#include "tests/unit/config/sample.h"
#include "tests/unit/data/data_files.h"

namespace simurgh {
namespace {

// The sample with one replacement.
std::string Replaced(const std::string& from, const std::string& to) {
  std::string text = kSample;
  const size_t at = text.find(from);
  INFO("the sample has no '" << from << "'");
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

struct Case {
  std::string from;
  std::string to;
  std::string at;     // Where the error must point: the line on which this begins.
  std::string error;  // Behind the place.
};

void CheckCases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string text = Replaced(c.from, c.to);
    const size_t at = text.find(c.at);
    REQUIRE(at != std::string::npos);
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n');
    CHECK(ParseClusterConfig(text, kSamplePath, {}).status().message() ==
          absl::StrCat(kSamplePath, ":", line, ": ", c.error));
  }
}

}  // namespace

TEST_CASE("Steps of processing are read", "[config]") {
  const TemporaryFolder folder;
  const auto config = ParseClusterConfig(
      Replaced(
          "- {name: shop}",
          "- {name: shop, columns: [shop, city], hash: integer, seed: 7, missing: id, "
          "max_length: 5, keep: last, pad: true, modulo: 900}\n"
          "  - {name: old, column: age, table: shop, boundaries: [-1, 0.5, 1e3]}\n"
          "  - {name: part, column: age, table: shop, quantiles: 10}\n"
          "  - {name: known, column: shop, table: shop, vocabulary: [a, \"b c\"], oov_ids: 4}\n"
          "  - {name: filed, column: shop, table: shop, vocabulary_file: " +
              folder.Write("words.txt", "red\r\ndark green") +
              "}\n"
              "  - {name: outside, column: shop, table: shop, plugin: {path: LICENSE, "
              "parameters: [1, two], max_ids: 7}}"),
      kSamplePath,
      {"data.on_bad_row=skip", "data.max_bad_share=0.05", "training.keep_negatives=0.25"});
  REQUIRE(config.status() == absl::OkStatus());
  const ProcessingConfig& cross = config->features[3].processing;
  CHECK(config->features[3].sources() == std::vector<std::string>{"shop", "city"});
  CHECK(cross.hash == ProcessingConfig::Hash::kInteger);
  CHECK(cross.seed == 7);
  CHECK(cross.missing == ProcessingConfig::Missing::kId);
  CHECK(cross.max_length == 5);
  CHECK(cross.keep == ProcessingConfig::Keep::kLast);
  CHECK(cross.pad);
  CHECK(cross.modulo == 900);
  CHECK(config->features[4].processing.boundaries == std::vector<double>{-1.0, 0.5, 1e3});
  CHECK(config->features[5].processing.quantiles == 10);
  CHECK(config->features[6].processing.vocabulary == std::vector<std::string>{"a", "b c"});
  CHECK(config->features[6].processing.oov_ids == 4);
  CHECK(config->features[7].processing.vocabulary == std::vector<std::string>{"red", "dark green"});
  CHECK(config->features[8].processing.plugin.path == "LICENSE");
  CHECK(config->features[8].processing.plugin.parameters == std::vector<std::string>{"1", "two"});
  CHECK(config->features[8].processing.plugin.max_ids == 7);
  CHECK(config->data.on_bad_row == DataConfig::OnBadRow::kSkip);
  CHECK(config->data.max_bad_share == 0.05);
  CHECK(config->training.keep_negatives == 0.25F);
}

TEST_CASE("Poolings are read and give the width of a feature", "[config]") {
  const auto config = ParseClusterConfig(
      Replaced("- {name: shop}",
               "- {name: shop, pooling: raw, max_length: 3}\n"
               "  - {name: tags, column: shop, table: shop, pooling: weighted_sum, "
               "weight_separator: \":\"}"),
      kSamplePath, {});
  REQUIRE(config.status() == absl::OkStatus());
  const auto plain = ParseClusterConfig(kSample, kSamplePath, {});
  REQUIRE(plain.ok());
  CHECK(config->features[3].pooling == Pooling::kRaw);
  CHECK(config->features[4].pooling == Pooling::kWeightedSum);
  CHECK(config->features[4].weight_separator == ':');
  const size_t dim = config->tables[config->features[3].table_index].dim;
  CHECK(config->embedding_width() == plain->embedding_width() + 3 * dim);
}

TEST_CASE("Processing: what does not fit together", "[config]") {
  const std::string shop = "- {name: shop}";
  CheckCases({
      {shop, "- {name: shop, columns: [city, shop], column: shop}", "column: shop}",
       "features.3.column: has no effect; remove it, or leave out columns"},
      {shop, "- {name: shop, columns: [shop, city, shopp]}", "shopp]",
       "features.3.columns.2: no column is named 'shopp'; the nearest id or dense column is "
       "'shop'"},
      {shop, "- {name: shop, columns: [shop, note]}", "note]",
       "features.3.columns.1: column 'note' is a skip column; use one of age, city, items, shop"},
      {shop, "- {name: shop, columns: [shop, city], quantiles: 4}", "quantiles",
       "features.3.quantiles: has no effect; remove it, or use one column"},
      {shop, "- {name: shop, boundaries: [1, 3, 2]}", "2]}",
       "features.3.boundaries.2: 2 is not above the previous one; give ascending "
       "boundaries"},
      {shop, "- {name: shop, boundaries: [1, many]}", "many",
       "features.3.boundaries.1: 'many' is not a finite number; expected: ascending numbers"},
      {shop, "- {name: shop, boundaries: [1], hash: text}", "hash: text",
       "features.3.hash: has no effect; remove it, or leave out boundaries"},
      {shop, "- {name: shop, boundaries: [1], seed: 2}", "seed: 2",
       "features.3.seed: has no effect; remove it, or hash the feature's values"},
      {shop, "- {name: shop, hash: none, seed: 2}", "seed: 2",
       "features.3.seed: has no effect; remove it, or hash the feature's values"},
      {shop, "- {name: shop, quantiles: 1}", "quantiles",
       "features.3.quantiles: 1 is out of range; use 2 to 1024, or 0"},
      {shop, "- {name: shop, vocabulary: [a, b, a]}", "a]}",
       "features.3.vocabulary.2: 'a' repeats features.3.vocabulary.0; use each name once"},
      {shop, "- {name: shop, plugin: {path: LICENSE}, hash: text}", "plugin",
       "features.3.hash: has no effect; remove it, or leave out plugin"},
      {shop, "- {name: shop, plugin: {max_ids: 5}}", "plugin",
       "features.3.plugin.max_ids: has no effect; remove it, or give path"},
      {shop, "- {name: shop, plugin: {path: nowhere.so}}", "plugin",
       "features.3.plugin.path: cannot read 'nowhere.so': No such file or directory; give a path "
       "that is absolute or relative to the folder of the YAML file"},
      {shop, "- {name: shop, vocabulary_file: nowhere.txt}", "vocabulary_file",
       "features.3.vocabulary_file: cannot read 'nowhere.txt': No such file or directory; give a "
       "path that is absolute or relative to the folder of the YAML file"},
      {shop, "- {name: shop, vocabulary: [a], vocabulary_file: LICENSE}", "vocabulary_file",
       "features.3.vocabulary_file: has no effect; remove it, or leave out vocabulary"},
      {"data:\n", "data:\n  derived: [{name: d, columns: [age]}]\n", "derived",
       "data.derived.0.plugin: missing; name the plug-in that makes the values"},
      {"data:\n", "data:\n  derived: [{name: d, columns: [agee], plugin: {path: LICENSE}}]\n",
       "derived",
       "data.derived.0.columns.0: no column is named 'agee'; the nearest id or dense column is "
       "'age'"},
      {"data:\n",
       "data:\n  derived: [{name: d, columns: [age], plugin: {path: LICENSE, max_ids: 3}}]\n",
       "derived", "data.derived.0.plugin.max_ids: unknown key; use one of path, parameters"},
      {shop, "- {name: shop, oov_ids: 3}", "oov_ids",
       "features.3.oov_ids: has no effect; remove it, or give vocabulary"},
      {shop, "- {name: shop, pad: true}", "pad",
       "features.3.pad: has no effect; remove it, or give max_length"},
      {shop, "- {name: shop, pooling: average}", "pooling",
       "features.3.pooling: 'average' is unknown; expected: one of sum, mean, sqrt_n, max, "
       "weighted_sum, raw"},
      {shop, "- {name: shop, pooling: raw}", "pooling",
       "features.3.pooling: raw requires max_length; give max_length"},
      {shop, "- {name: shop, pooling: mean, mask: true}", "mask",
       "features.3.mask: has no effect with pooling: mean; remove it, or set pooling: raw without "
       "pad"},
      {shop, "- {name: shop, pooling: raw, max_length: 3, pad: true, mask: true}", "mask",
       "features.3.mask: has no effect with pooling: raw; remove it, or set pooling: raw without "
       "pad"},
      {shop, "- {name: shop, pooling: max, hash_stack: {rounds: 2, buckets: 9}}", "pooling",
       "features.3.pooling: max does not support several rows per id (hash_stack.rounds); choose "
       "another pooling, or leave the hash stack out"},
      {shop, "- {name: shop, weight_separator: \":\"}", "weight_separator",
       "features.3.weight_separator: has no effect with pooling: sum; remove it, or set pooling: "
       "weighted_sum"},
      {shop,
       "- {name: shop, pooling: weighted_sum, columns: [shop, city], weight_separator: \":\"}",
       "weight_separator",
       "features.3.weight_separator: has no effect; remove it, or use one column without quantiles "
       "or plugin"},
      {"mean: 2, stddev: 0.25", "fit: true, stddev: 0.25", "stddev: 0.25",
       "data.columns.0.stddev: has no effect; remove it, or leave out fit"},
      {"  train: [CMakeLists.txt]", "  train: [CMakeLists.txt]\n  max_bad_share: 0.1",
       "max_bad_share",
       "data.max_bad_share: has no effect with on_bad_row: fail; remove it, or set on_bad_row: "
       "skip"},
  });
}

TEST_CASE("Weights are separated from the text around them", "[config]") {
  const std::string shop = "- {name: shop}";
  const auto with = [](const std::string& separator, const std::string& column = "items") {
    return "- {name: shop, pooling: weighted_sum, column: " + column + ", weight_separator: \"" +
           separator + "\"}\n  - {name: used, column: shop, table: shop}";
  };
  const std::string remedy = "; use another character between values and weights, or omit weights";
  const std::string key = "features.3.weight_separator: ";
  CheckCases({
      {shop, with(";"), "weight_separator", key + "the same as between columns" + remedy},
      {shop, with("|"), "weight_separator",
       key + "the same as between the values of column 'items'" + remedy},
      {shop, with("."), "weight_separator",
       key + "'.' occurs in numbers, and so in weights" + remedy},
      {shop, with("-"), "weight_separator",
       key + "'-' occurs in numbers, and so in weights" + remedy},
      {shop, with("+"), "weight_separator",
       key + "'+' occurs in numbers, and so in weights" + remedy},
      {shop, with(":", "age"), "weight_separator",
       key + "column 'age' is dense: its cells are single numbers" + remedy},
  });
  for (const char separator : {'.', '-', '+'}) {
    const auto config = ParseClusterConfig(
        Replaced(shop, with(":")), kSamplePath,
        {absl::StrCat("data.columns.2.separator=\"", std::string(1, separator), "\"")});
    CHECK_THAT(std::string(config.status().message()),
               Catch::Contains(key + "the separator of column 'items', '" + separator +
                               "', occurs in numbers, and so in weights" + remedy));
  }
  for (const char* separator : {":", " ", "\t", "=", "/", "@", "#", "_"}) {
    INFO("'" << separator << "'");
    CHECK(ParseClusterConfig(Replaced(shop, with(separator)), kSamplePath, {}).ok());
  }
}

TEST_CASE("Files are regular ones, and none waits for its writer", "[config]") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo(folder.Path("pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder.Path("pipe"), std::string("/dev/null")}) {
    const auto config = ParseClusterConfig(kSample, kSamplePath, {"data.train=[" + path + "]"});
    CHECK(config.status().message() ==
          absl::StrCat("--set data.train=[", path, "]: data.train.0: cannot read '", path,
                       "': it is a pipe, a socket or a device; give a path "
                       "that is absolute or relative to the folder of the YAML file"));
  }
}

TEST_CASE("A vocabulary's file is checked line by line", "[config]") {
  const TemporaryFolder folder;
  const auto problem = [&](const std::string& content) {
    const std::string path = folder.Write("words.txt", content);
    const auto config = ParseClusterConfig(
        Replaced("- {name: shop}", "- {name: shop, vocabulary_file: " + path + "}"), kSamplePath,
        {});
    if (config.ok()) return std::string("none");
    const std::string prefix =
        std::string(kSamplePath) + ":29: features.3.vocabulary_file: '" + path + "', ";
    const std::string message(config.status().message());
    CHECK(message.starts_with(prefix));
    return message.substr(std::min(prefix.size(), message.size()));
  };
  CHECK(problem("a\nb\n") == "none");
  CHECK(problem("a\nb\n\nc\na\n") == "line 3: empty; give one value per line");
  CHECK(problem("a\nb\na\n") == "line 3: 'a' repeats line 1; give every value once");
  CHECK(problem("a\nb\r\nb\n") == "line 3: 'b' repeats line 2; give every value once");
  CHECK(problem("a\n" + std::string(1'024, 'x')) == "none");
  CHECK(problem("a\n" + std::string(1'025, 'x')) ==
        "line 2: '" + std::string(64, 'x') + "...' has 1025 bytes, more than 1024; shorten it");
  CHECK(problem("") == "no values; give one per line");
  CHECK(problem("\xef\xbb\xbf"
                "a\na\n") == "line 2: 'a' repeats line 1; give every value once");
}

TEST_CASE("Daemons agree on how features are processed", "[config]") {
  const auto agreement = [](const std::string& feature) {
    const auto config = ParseClusterConfig(Replaced("- {name: shop}", feature), kSamplePath, {});
    REQUIRE(config.status() == absl::OkStatus());
    return ClusterAgreement(*config);
  };
  const std::string plain = agreement("- {name: shop}");
  for (const char* feature :
       {"- {name: shop, columns: [shop, city]}", "- {name: shop, hash: integer}",
        "- {name: shop, seed: 1}", "- {name: shop, boundaries: [1]}",
        "- {name: shop, quantiles: 2}", "- {name: shop, vocabulary: [a]}",
        "- {name: shop, plugin: {path: LICENSE}}",
        "- {name: shop, plugin: {path: LICENSE, parameters: [a]}}", "- {name: shop, missing: id}",
        "- {name: shop, max_length: 1}", "- {name: shop, modulo: 5}",
        "- {name: shop, pooling: mean}"}) {
    INFO(feature);
    CHECK(agreement(feature) != plain);
  }
}

}  // namespace simurgh
