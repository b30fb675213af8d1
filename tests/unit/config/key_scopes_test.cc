#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "config/map_reader.h"
#include "config/sections.h"

namespace simurgh {
namespace {

using Lines = std::vector<std::string>;

// Returns the lines that the others lack.
Lines Without(const Lines& lines, const Lines& others) {
  Lines rest;
  std::ranges::copy_if(lines, std::back_inserter(rest), [&](const std::string& line) {
    return std::ranges::find(others, line) == others.end();
  });
  return rest;
}

// Returns one line for each key, in the order of reading: the key and what must agree on it, of
// `cluster`, `input`, `training` and `model`; or `none`.
std::string DescribeScopes() {
  std::string text;
  for (const KnownKey& key : KnownKeys()) {
    text += key.key;
    for (const auto& [scope, name] :
         {std::pair(Scope::kCluster, " cluster"), std::pair(Scope::kInput, " input"),
          std::pair(Scope::kTraining, " training"), std::pair(Scope::kModel, " model")}) {
      if (Includes(key.scope, scope)) text += name;
    }
    text += key.scope == Scope::kNone ? " none\n" : "\n";
  }
  return text;
}

}  // namespace

// With SIMURGH_WRITE_SCOPES=1 in the environment, the test writes the file.
TEST_CASE("The scopes of all keys are those of key_scopes.txt", "[config]") {
  const std::string path = "tests/unit/config/key_scopes.txt";
  const std::string described = DescribeScopes();
  if (std::getenv("SIMURGH_WRITE_SCOPES") != nullptr) std::ofstream(path) << described;
  std::ifstream file(path);
  REQUIRE(file);
  const std::string kept{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  INFO("to accept the change: SIMURGH_WRITE_SCOPES=1 build/release/tests/config_test '*scopes*'");
  const Lines lines = absl::StrSplit(kept, '\n');
  const Lines described_lines = absl::StrSplit(described, '\n');
  CHECK(Without(described_lines, lines) == Lines());
  CHECK(Without(lines, described_lines) == Lines());
  CHECK((described == kept));
}

}  // namespace simurgh
