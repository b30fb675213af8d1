#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "config/document.h"

namespace simurgh {
namespace {

std::string ReadReference() {
  std::ifstream file("config/README.md");
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

// A row: | `key` | takes | default | meaning |
TEST_CASE("The reference says of every key what the parser takes, and knows no other", "[config]") {
  std::map<std::string, std::string> documented;
  std::istringstream lines(ReadReference());
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `") || line.find("yaml` |") != std::string::npos) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    INFO(line);
    REQUIRE(cells.size() == 4);
    CHECK(cells[3].size() > std::string(" |").size());
    const std::string key = cells[0].substr(3, cells[0].size() - 4);
    CHECK(documented.emplace(key, absl::StrCat(cells[1], " | ", cells[2])).second);
  }
  std::map<std::string, std::string> known;
  for (const KnownKey& key : KnownKeys()) {
    INFO(key.key);
    CHECK(known.emplace(key.key, absl::StrCat(key.type, " | ", key.fallback)).second);
  }
  for (const auto& [key, says] : known) {
    INFO(key);
    CHECK(documented[key] == says);
  }
  for (const auto& [key, says] : documented) {
    INFO(key);
    CHECK(known.contains(key));
  }
}

TEST_CASE("The shortest file of the reference is valid", "[config]") {
  const std::string reference = ReadReference();
  const std::string fence = "```yaml\n";
  const size_t begin = reference.find(fence) + fence.size();
  const std::string example = reference.substr(begin, reference.find("```", begin) - begin);
  const StatusOr<ClusterConfig> config =
      ParseClusterConfig(example, "example.yaml", {"data.train=[CMakeLists.txt]"});
  INFO(config.status().ToString());
  REQUIRE(config.ok());

  // Its fields are the structs' own initial values wherever it says nothing.
  const ClusterConfig initial;
  CHECK(config->seed == initial.seed);
  CHECK(config->embedding_ps.partitions == initial.embedding_ps.partitions);
  CHECK(config->embedding_worker.batch_expiry == initial.embedding_worker.batch_expiry);
  CHECK(config->rpc.max_frame_bytes == initial.rpc.max_frame_bytes);
  CHECK(config->tables[0].capacity_rows == TableConfig().capacity_rows);
  CHECK(config->tables[0].optimizer.epsilon == SparseOptimizerConfig().epsilon);
  CHECK(config->data.csv.missing_values == initial.data.csv.missing_values);
  CHECK(config->training.batch_size == initial.training.batch_size);
  CHECK(config->training.drop_last == initial.training.drop_last);
  CHECK(config->training.dense_optimizer.kind == initial.training.dense_optimizer.kind);
}

}  // namespace simurgh
