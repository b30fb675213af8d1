#include "tests/unit/config/error_cases.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "config/sections.h"
#include "tests/unit/config/sample.h"

namespace simurgh {

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  INFO("the sample has no '" << from << "'");
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

namespace {

// The line, from 1, on which `needle` begins.
int LineOf(const std::string& text, const std::string& needle) {
  const size_t at = text.find(needle);
  INFO("the text has no '" << needle << "'");
  REQUIRE(at != std::string::npos);
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
}

}  // namespace

std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides) {
  const StatusOr<ClusterConfig> config = ParseClusterConfig(text, kSamplePath, overrides);
  if (config.ok()) return "no error";
  CHECK(config.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

void CheckCases(const std::vector<ErrorCase>& cases) {
  for (const ErrorCase& c : cases) {
    const std::string text = Replaced(kSample, c.from, c.to);
    CHECK(ErrorOf(text) == absl::StrCat(kSamplePath, ":", LineOf(text, c.at), ": ", c.error));
  }
}

}  // namespace simurgh
