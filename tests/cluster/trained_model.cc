#include "tests/cluster/trained_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "base/check.h"
#include "config/cluster_config.h"

namespace simurgh::testing {

std::string Program(const std::string& name) {
  const char* const folder = std::getenv("SIMURGH_BIN_DIR");
  SIMURGH_CHECK(folder != nullptr) << "set SIMURGH_BIN_DIR to build/<preset>/bin";
  return absl::StrCat(folder, "/", name);
}

CommandResult Simurgh(const std::string& arguments) {
  return RunCommand(absl::StrCat(Program("simurgh"), " ", arguments));
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  REQUIRE(lines.back().empty());
  lines.pop_back();
  return lines;
}

double WorstDifference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t line = 0; line < a.size(); ++line) {
    const std::vector<std::string> own = absl::StrSplit(a[line], ',');
    const std::vector<std::string> other = absl::StrSplit(b[line], ',');
    REQUIRE(own.size() == other.size());
    for (size_t i = 0; i < own.size(); ++i) {
      double x = 0;
      double y = 1;
      REQUIRE((absl::SimpleAtod(own[i], &x) && absl::SimpleAtod(other[i], &y)));
      worst = std::max(worst, std::abs(x - y) / std::max(1.0, std::abs(y)));
    }
  }
  return worst;
}

Trained::Trained(const std::string& config, std::vector<std::string> overrides) {
  overrides.push_back("checkpoint.directory=" + model);
  overrides.emplace_back("training.max_steps=60");
  outcome = RunStandalone({.config = config, .overrides = overrides});
  REQUIRE(outcome.exit_code == 0);
  test = LoadClusterConfig(config, overrides).value().data.test.at(0);
  checkpoint = ModelDirectory(model).Latest().value().checkpoint;
}

std::string Trained::Rows(int count) const {
  return RunCommand(absl::StrCat("(zstd -dcqf ", test, " || cat ", test, ") | head -", count)).out;
}

std::string PredictedRows(const Trained& trained, const std::string& metadata) {
  const size_t inputs = metadata.find("\"inputs\":");
  std::vector<std::string> names;
  constexpr std::string_view kName = "{\"name\":\"";
  for (size_t at = metadata.find(kName, inputs); at < metadata.find("\"outputs\":");
       at = metadata.find(kName, at + 1)) {
    const size_t begin = at + kName.size();
    names.push_back(metadata.substr(begin, metadata.find('"', begin) - begin));
  }
  REQUIRE(!names.empty());
  std::string path = trained.folder.Path("predictions.csv");
  const CommandResult result = Simurgh(
      absl::StrCat("predict --model ", trained.model, " --input ", trained.test, " --output ", path,
                   " --allow-plugins --columns ", absl::StrJoin(names, ",")));
  INFO(result.error);
  REQUIRE(result.exit_code == 0);
  return path;
}

std::string Generate(const TemporaryFolder& folder, const char* name, const std::string& options) {
  const std::string path = folder.Path(name);
  REQUIRE(RunCommand(absl::StrCat(Program("datagen"), " --samples 4000 --distinct-ids 5000 ",
                                  options, " --output ", path))
              .exit_code == 0);
  return path;
}

std::string PlainConfig(const TemporaryFolder& folder) {
  const std::string train = Generate(folder, "train.tsv");
  const std::string test = Generate(folder, "test.tsv", "--first 4000");
  return folder.Write("plain.yaml", absl::StrCat(R"(cluster: {name: plain}
embedding_ps: {instances: [{address: "127.0.0.1:7601"}, {address: "127.0.0.1:7602"}]}
embedding_worker: {instances: [{address: "127.0.0.1:7611"}]}
nn_worker: {instances: [{}]}
tables: [{names: [C1, C2, C3, C20], dim: 4, optimizer: {kind: adagrad, learning_rate: 0.1}}]
features: [{name: C1}, {name: C2}, {name: C3}, {name: C20}]
data: {format: criteo, train: [)",
                                                 train, "], test: [", test, R"(]}
model: {towers: [{name: top, input: [dense, embeddings], layers: [{linear: 16}, relu, {linear: 1}]}]}
training: {batch_size: 64, dense_optimizer: {kind: adam, learning_rate: 0.01}}
)"));
}

std::string PoolingConfig(const TemporaryFolder& folder) {
  std::string rows;
  for (int row = 0; row < 600; ++row) {
    std::string tags;
    for (int i = 0; i < row % 5; ++i) {
      absl::StrAppend(&tags, i == 0 ? "" : "|", "t", row * (i + 3) % 17, ":", 1 + row % 4);
    }
    absl::StrAppend(&rows, tags, ",", row % 13, ",", (row * 7 / 5) % 2, "\n");
  }
  folder.Write("train.csv", rows);
  return folder.Write("pooling.yaml", R"(cluster: {name: pooling}
embedding_ps: {instances: [{address: "127.0.0.1:7601"}]}
embedding_worker: {instances: [{address: "127.0.0.1:7611"}]}
nn_worker: {instances: [{}]}
tables: [{names: [a, b, c, d, e, f, g], dim: 4, initializer: {low: -1, high: 1}}]
features:
  - {name: a, column: tags}
  - {name: b, column: tags, pooling: mean}
  - {name: c, column: tags, pooling: sqrt_n}
  - {name: d, column: tags, pooling: max}
  - {name: e, column: tags, weight_separator: ":", pooling: weighted_sum}
  - {name: f, column: tags, pooling: raw, max_length: 3, mask: true}
  - {name: g, column: tags, pooling: mean, hash_stack: {rounds: 2, buckets: 9}}
data:
  train: [train.csv]
  test: [train.csv]
  columns:
    - {name: tags, kind: id, separator: "|"}
    - {name: number, kind: dense, fit: true}
    - {name: label, kind: label}
model:
  towers:
    - {name: keys, input: [embeddings.f, dense], layers: [gelu, {cross: {rank: 2}}, {linear: 8}, sigmoid, {fm: 4}]}
    - {name: pairs, input: [embeddings.e, embeddings.a, embeddings.g], layers: [{dot: 4}, batch_norm]}
    - {name: all, input: embeddings, layers: [cross, {linear: 6}, {sum: 2}]}
    - {name: interest, input: [embeddings.a, embeddings.f, mask.f], layers: [{attention: {hidden: [5]}}]}
    - {name: average, input: [embeddings.f, mask.f], layers: [mean]}
    - {name: latest, input: [embeddings.f, mask.f], layers: [last]}
    - {name: mmoe, input: [interest, average, latest], layers: [{linear: 3}, relu], experts: 2, gates: [one, two]}
    - {name: top, input: [keys, pairs, all, mmoe.one, mmoe.two], layers: [{linear: 2}, sum]}
training: {batch_size: 32, epochs: 9}
)");
}

}  // namespace simurgh::testing
