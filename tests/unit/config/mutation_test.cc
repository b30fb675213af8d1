#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "config/sections.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

// One random edit: of a character, a piece or a line.
void Mutate(std::mt19937_64* random, std::string* text) {
  const auto below = [random](size_t n) { return n == 0 ? 0 : (*random)() % n; };
  const size_t at = below(text->size());
  const size_t length = below(40);
  static constexpr char kAlphabet[] = "{}[]:,-#&*!|>'\"%@` \n\t?~0aZ.\xc3\0";
  switch (below(5)) {
    case 0:
      text->erase(at, length);
      break;
    case 1:
      text->insert(at, text->substr(below(text->size()), length));
      break;
    case 2:
      if (!text->empty()) (*text)[at] = kAlphabet[below(sizeof(kAlphabet) - 1)];
      break;
    case 3:
      text->insert(at, 1, static_cast<char>(below(256)));
      break;
    default: {
      std::vector<std::string> lines = absl::StrSplit(*text, '\n');
      std::swap(lines[below(lines.size())], lines[below(lines.size())]);
      text->clear();
      for (const std::string& line : lines) text->append(line).append("\n");
    }
  }
}

// Every line of an error names a line that the text has.
bool NamesPlaces(const std::string& message, size_t line_count) {
  const std::vector<std::string> lines = absl::StrSplit(message, '\n');
  return std::all_of(lines.begin(), lines.end(), [&](const std::string& line) {
    if (line.starts_with("and ")) return true;
    const std::string prefix = std::string(kSamplePath) + ":";
    if (!line.starts_with(prefix)) return false;
    const size_t number = std::strtoul(line.c_str() + prefix.size(), nullptr, 10);
    return number >= 1 && number <= line_count && line.find("; ") != std::string::npos;
  });
}

}  // namespace

TEST_CASE("A damaged file is read or refused with places, never more", "[config]") {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 random(seed);
  size_t refused = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string text = kSample;
    for (uint64_t edits = 1 + random() % 6; edits > 0; --edits) Mutate(&random, &text);
    const Status status = ParseClusterConfig(text, kSamplePath, {}).status();
    if (status.ok()) continue;
    ++refused;
    const size_t lines = 1 + static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    // yaml-cpp counts a lone carriage return as a line end, too.
    const size_t returns = static_cast<size_t>(std::count(text.begin(), text.end(), '\r'));
    if (!NamesPlaces(std::string(status.message()), lines + returns)) {
      FAIL("seed " << seed << ", round " << round << "\n" << status << "\n" << text);
    }
  }
  INFO("seed " << seed);
  CHECK(refused > 0);
}

TEST_CASE("Deep nesting is refused, not followed", "[config]") {
  for (const char* open : {"[", "{a: ", "- "}) {
    std::string text = "cluster: ";
    if (*open == '-') text += "\n  ";
    for (int i = 0; i < 20'000; ++i) text += open;
    const Status status = ParseClusterConfig(text, kSamplePath, {}).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace simurgh
