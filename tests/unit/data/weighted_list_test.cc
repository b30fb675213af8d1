// Lists of values and weights through the reader: blanks, missing values and errors are those of
// plain lists.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/processing/feature_ids.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;
using Ids = std::vector<uint64_t>;
using Missing = ProcessingConfig::Missing;

// y,tags: lists separated by |.
DataConfig Example() {
  DataConfig config;
  config.missing_values = {"", "?"};
  config.columns = {Column("y", Kind::kLabel), Column("tags", Kind::kId)};
  config.columns[1].separator = '|';
  return config;
}

FeatureConfig Weighted(char separator = ':') {
  FeatureConfig feature = Feature("tags");
  feature.pooling = Pooling::kWeightedSum;
  feature.weight_separator = separator;
  return feature;
}

struct Read {
  Ids ids;
  std::vector<float> weights;
};

// What the feature makes of the cell.
StatusOr<Read> ReadCell(const FeatureConfig& feature, const std::string& cell,
                        const DataConfig& config = Example()) {
  const TemporaryFolder folder;
  const auto reader =
      OpenBatchReader(config, {feature}, {folder.Write("a.csv", "1," + cell + "\n")}, 1);
  REQUIRE(reader.ok());
  SIMURGH_ASSIGN_OR_RETURN(const auto batch, (*reader)->Next());
  const FeatureView view = batch->sparse->feature(0);
  Read read;
  for (const uint32_t occurrence : view.sample(0)) read.ids.push_back(view.ids[occurrence]);
  read.weights.assign(view.weights.begin(), view.weights.end());
  if (read.weights.empty()) read.weights.assign(read.ids.size(), 1.0F);
  return read;
}

Ids Hashes(const std::vector<std::string>& texts) {
  Ids ids;
  for (const std::string& text : texts) ids.push_back(HashText(text, 0));
  return ids;
}

TEST_CASE("Blanks around values and weights are no text") {
  const Read read = *ReadCell(Weighted(), " a : 0.5 |b:2|\tc\t:\t-1 | d e ");
  CHECK(read.ids == Hashes({"a", "b", "c", "d e"}));
  CHECK(read.weights == std::vector<float>{0.5F, 2, -1, 1});
  const Read by_blanks = *ReadCell(Weighted(' '), "a 0.5 | b  2");
  CHECK(by_blanks.ids == Hashes({"a", "b"}));
  CHECK(by_blanks.weights == std::vector<float>{0.5F, 2});
}

TEST_CASE("A missing value is dropped with its weight") {
  const Read read = *ReadCell(Weighted(), "a:3|?:7|:9| ? : x |?||b:4");
  CHECK(read.ids == Hashes({"a", "b"}));
  CHECK(read.weights == std::vector<float>{3, 4});
  FeatureConfig feature = Weighted();
  CHECK(ReadCell(feature, "?:1|:2")->ids.empty());
  feature.processing.missing = Missing::kId;
  CHECK(ReadCell(feature, "?:5|:2")->ids == Ids{kMissingId});
  CHECK(ReadCell(feature, "?:5|:2")->weights == std::vector<float>{1});
  feature.processing.missing = Missing::kFail;
  CHECK_THAT(std::string(ReadCell(feature, "?:1").status().message()),
             Catch::EndsWith("a.csv:1: feature 'tags': its value is missing; correct the row, or "
                             "choose another rule for `missing`"));
  DataConfig config = Example();
  config.missing_values = {"N:A"};
  CHECK(ReadCell(Weighted(), "a:1|N:A|N:A:3", config)->ids == Hashes({"a"}));
  CHECK(ReadCell(Weighted(), ":2", config)->ids == Hashes({""}));
}

TEST_CASE("Values with weights are bucketised and looked up as without") {
  FeatureConfig feature = Weighted();
  feature.processing.boundaries = {1.0, 2.0};
  CHECK(ReadCell(feature, " 1.5 : 2 |3:1|?:4")->ids == Ids{1, 2});
  feature.processing.boundaries.clear();
  feature.processing.vocabulary = {"red", "green"};
  feature.processing.oov_ids = 0;
  const Read read = *ReadCell(feature, "green :3|blue:5| red:4");
  CHECK(read.ids == Ids{1, 0});
  CHECK(read.weights == std::vector<float>{3, 4});
}

TEST_CASE("A bad weight is named with its feature, row and value") {
  for (const char* part : {"a:", "a:x", "a:inf", "a:nan", "a:1e39", "a:1e400", "a: ?"}) {
    const std::string text(ReadCell(Weighted(), "b:1|" + std::string(part)).status().message());
    CHECK_THAT(text, Catch::EndsWith(std::string("a.csv:1: feature 'tags': '") + part +
                                     "' has a weight that is not a finite number; correct it, or "
                                     "leave it out"));
  }
}

TEST_CASE("With whatever blanks and missing values, weighted lists hold what plain ones hold") {
  const std::vector<std::string> values = {"a", "b", "c d", "?", "", "7"};
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const auto blanks = [&random] { return std::string(random.Below(3), ' '); };
    std::string plain;
    std::string weighted;
    std::vector<float> weights;
    const uint64_t count = 1 + random.Below(8);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string& value = values[random.Below(values.size())];
      const auto weight = static_cast<float>(random.Below(100));
      const bool is_weighted = random.Below(4) > 0;
      const std::string before = (i > 0 ? "|" : "") + blanks() + value + blanks();
      plain += before;
      weighted += before;
      if (is_weighted) weighted += ":" + blanks() + std::to_string(weight) + blanks();
      if (!value.empty() && value != "?") weights.push_back(is_weighted ? weight : 1.0F);
    }
    const Read read = *ReadCell(Weighted(), weighted);
    REQUIRE(read.ids == ReadCell(Feature("tags"), plain)->ids);
    REQUIRE(read.weights == weights);
  }
}

}  // namespace
}  // namespace simurgh
