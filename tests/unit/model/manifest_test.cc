#include "model/manifest.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/hash.h"
#include "tests/unit/model/model_files.h"

namespace simurgh {
namespace {

using Catch::Contains;

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("A manifest survives as text, numbers to the bit") {
  const Manifest manifest = testing::TestManifest();
  const auto again = Manifest::FromJson(manifest.ToJson());
  INFO(again.status());
  REQUIRE(again.ok());
  CHECK(*again == manifest);
  CHECK(again->ToJson() == manifest.ToJson());
  const auto empty = Manifest::FromJson(Manifest().ToJson());
  REQUIRE(empty.ok());
  CHECK(*empty == Manifest());
}

TEST_CASE("Numbers that are not finite survive") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Manifest manifest;
  manifest.metrics = {{"a", NAN}, {"b", kInfinity}, {"c", -kInfinity}, {"d", -0.0}};
  auto again = Manifest::FromJson(manifest.ToJson());
  REQUIRE(again.ok());
  CHECK(std::isnan(again->metrics["a"]));
  CHECK(again->metrics["b"] == kInfinity);
  CHECK(again->metrics["c"] == -kInfinity);
  CHECK(std::signbit(again->metrics["d"]));
}

TEST_CASE("Texts that are no UTF-8 do not stop a manifest from being written") {
  Manifest manifest;
  manifest.config = {{"data.train", "\xff.csv"}};
  const auto again = Manifest::FromJson(manifest.ToJson());
  REQUIRE(again.ok());
  CHECK(again->config[0].second == "\xef\xbf\xbd.csv");
}

TEST_CASE("Another format version is refused, naming both") {
  const std::string text = testing::TestManifest().ToJson();
  const Status newer =
      Manifest::FromJson(Replaced(text, "\"format_version\": 1", "\"format_version\": 2")).status();
  CHECK(absl::IsFailedPrecondition(newer));
  CHECK(newer.message() ==
        "format_version: the checkpoint has version 2; this program reads "
        "version 1; use the program of the newer version");
  // Before its keys are checked.
  CHECK(absl::IsFailedPrecondition(Manifest::FromJson(R"({"format_version": 7})").status()));
}

TEST_CASE("A text that is no manifest is refused, naming the key") {
  struct Bad {
    std::string from;
    std::string to;
    std::string message;
  };
  const Bad bad = GENERATE(values<Bad>({
      {"{", "[", "the text is not JSON: parse error"},
      {"\"step\": 1200", "\"steps\": 1200", "step: the key is missing"},
      {"\"step\": 1200", "\"step\": -1", "step: not a number from 0 on"},
      {"\"step\": 1200", "\"step\": 1.0", "step: not a number from 0 on"},
      {"\"step\": 1200", "\"step\": 99999999999999999999", "step: not a number from 0 on"},
      {"\"step\": 1200", "\"step\": 1200, \"step\": 1200", "step: the key repeats"},
      {"\"step\": 1200", "\"step\": 1200, \"other\": 1", "other: the key is not of this format"},
      {"\"step_time\": 1790000001", "\"step_time\": \"now\"", "step_time: not seconds"},
      {"\"format_version\": 1", "\"format_version\": \"1\"", "format_version: not a number from 0"},
      {"\"delta\"", "\"half\"", "kind: neither full nor delta"},
      {"\"delta\"", "\"full\"", "parent: the key is not of this format version"},
      {"0123456789abcdef", "123456789abcdef", "parent.checksum: not a hash of 16 hexadecimal"},
      {"0123456789abcdef", "g123456789abcdef", "parent.checksum: not a hash of 16 hexadecimal"},
      {"\"auc\": 0.", "\"auc\": null, \"x\": 0.", "metrics.auc: not a number"},
      {"\"auc\": 0.", "\"auc\": \"1\", \"x\": 0.", "metrics.auc: not a number"},
      {"\"none\": []", "\"none\": 1", "statistics.none: not a list"},
      {"\"none\": []", "\"none\": [\"a\"]", "statistics.none: not a number"},
      {"\"256\"", "256", "config: not a list of pairs of texts"},
      {"\"wire\": \"bf16\"", "\"wire\": 16", "extra.wire: not a text"},
      {"\"position\": \"", "\"position\": \"?", "position: not a text in base64"},
      {"\"a.txt\"", "\"../a.txt\"", "files.0.path: not a path inside the checkpoint"},
      {"\"a.txt\"", "\"/etc/passwd\"", "files.0.path: not a path inside the checkpoint"},
      {"\"a.txt\"", "\"manifest.json\"", "files.0.path: not a path inside the checkpoint"},
      {"\"bytes\": 7", "\"bytes\": null", "files.1.bytes: not a number from 0 on"},
  }));
  CAPTURE(bad.to);
  const Status status =
      Manifest::FromJson(Replaced(testing::TestManifest().ToJson(), bad.from, bad.to)).status();
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()), Contains(bad.message));
}

TEST_CASE("A manifest with any bit flipped is refused") {
  const std::string text = testing::TestManifest().ToJson();
  size_t accepted = 0;
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    if (Manifest::FromJson(flipped).ok()) ++accepted;
  }
  CHECK(accepted == 0);
}

TEST_CASE("A manifest's checksum is the XXH3 of all that follows its line") {
  const std::string text = testing::TestManifest().ToJson();
  const size_t second = text.find('\n') + 1;
  const size_t third = text.find('\n', second) + 1;
  CHECK(text.substr(0, third) ==
        absl::StrCat("{\n \"checksum\": \"",
                     absl::Hex(HashBytes(text.substr(third)), absl::kZeroPad16), "\",\n"));
  // An older version wrote the same text without the line.
  const std::string without = text.substr(0, second) + text.substr(third);
  const auto old = Manifest::FromJson(without);
  REQUIRE(old.ok());
  CHECK(*old == testing::TestManifest());
  CHECK(Manifest::HasChecksum(text));
  CHECK_FALSE(Manifest::HasChecksum(without));
  // An edited one, or one that a program has formatted anew, is read only on demand.
  for (const std::string& edited : {Replaced(text, "\"step\": 1200", "\"step\": 1201"),
                                    Replaced(text, "\n \"files\"", " \"files\""),
                                    Replaced(text, "\"checksum\": \"", "\"checksum\": \"0")}) {
    const Status refused = Manifest::FromJson(edited).status();
    CHECK(absl::IsDataLoss(refused));
    CHECK_THAT(std::string(refused.message()),
               Contains("checksum: ") && Contains("`simurgh model seal MODEL`"));
    CHECK(Manifest::FromJson(edited, Manifest::Checksum::kIgnored).ok());
  }
}

TEST_CASE("A manifest that is too large is refused") {
  CHECK(absl::IsDataLoss(Manifest::FromJson(std::string(Manifest::kMaxBytes + 1, ' ')).status()));
}

}  // namespace
}  // namespace simurgh
