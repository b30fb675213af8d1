#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "config/sections.h"

namespace simurgh {
namespace {

std::string ReadReference() {
  std::ifstream file("config/README.md");
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("The reference has the generated tables", "[config]") {
  const std::string reference = ReadReference();
  const size_t begin = reference.find('\n', reference.find("<!-- begin of generated keys")) + 1;
  const size_t end = reference.find("<!-- end of generated keys -->");
  REQUIRE(begin < end);
  INFO("config/README.md is not what the parser takes; run scripts/dev reference");
  CHECK(reference.substr(begin, end - begin) == DescribeConfig());
}

TEST_CASE("Every key has a meaning of at most 20 words", "[config]") {
  for (const KnownKey& key : KnownKeys()) {
    INFO(key.key << ": " << key.meaning);
    CHECK(!key.meaning.empty());
    CHECK(std::vector<std::string>(absl::StrSplit(key.meaning, ' ')).size() <= 20);
  }
}

TEST_CASE("Every reference to a section names a heading or bold word", "[config]") {
  const std::string reference = ReadReference();
  const std::string see = "see ";
  size_t references = 0;
  for (const KnownKey& key : KnownKeys()) {
    const std::string& meaning = key.meaning;
    for (size_t at = meaning.find(see); at != meaning.npos; at = meaning.find(see, at + 1)) {
      const size_t begin = at + see.size();
      const std::string section = meaning.substr(begin, meaning.find_first_of(",;", begin) - begin);
      INFO(key.key << ": see " << section);
      CHECK((reference.find("# " + section + "\n") != reference.npos ||
             reference.find("\n**" + section + "**") != reference.npos));
      ++references;
    }
  }
  CHECK(references > 0);
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

  // Keys that it omits have the initial values of the structs, except for optimizers.
  const ClusterConfig initial;
  CHECK(config->seed == initial.seed);
  CHECK(config->embedding_ps.partitions == initial.embedding_ps.partitions);
  CHECK(config->embedding_worker.batch_expiry == initial.embedding_worker.batch_expiry);
  CHECK(config->rpc.max_frame_bytes == initial.rpc.max_frame_bytes);
  CHECK(config->tables[0].capacity_rows == TableConfig().capacity_rows);
  CHECK(config->tables[0].optimizer.epsilon == SparseOptimizerConfig().epsilon);
  CHECK(config->data.missing_values == initial.data.missing_values);
  CHECK(config->training.batch_size == initial.training.batch_size);
  CHECK(config->training.drop_last == initial.training.drop_last);
  CHECK(config->training.dense_optimizer.momentum == initial.training.dense_optimizer.momentum);
}

}  // namespace simurgh
