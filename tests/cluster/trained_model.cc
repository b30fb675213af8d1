#include "tests/cluster/trained_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "simurgh/base/check.h"
#include "simurgh/config/cluster_config.h"

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
      worst = std::max(worst, std::abs(x - y));
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

std::string Generate(const TemporaryFolder& folder, const char* name, const char* first) {
  const std::string path = folder.Path(name);
  REQUIRE(RunCommand(absl::StrCat(Program("datagen"), " --samples 4000 --distinct-ids 5000 ", first,
                                  " --output ", path))
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

}  // namespace simurgh::testing
