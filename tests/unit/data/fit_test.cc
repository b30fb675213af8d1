// Statistics of a first pass, over every format that can be read.

#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "bench/datagen/generator.h"
#include "config/statistics.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"
#include "tests/unit/nn/log_lines.h"

namespace simurgh {
namespace {

constexpr size_t kRows = 3'000;

std::string GeneratedText() {
  const auto generator = Generator::Create({.seed = 3, .distinct_ids = 2'000, .missing = 0.1});
  REQUIRE(generator.ok());
  std::string text;
  for (size_t n = 0; n < kRows; ++n) generator->AppendLine(generator->Sample(n), text);
  return text;
}

DataConfig Criteo(std::vector<std::string> files) {
  DataConfig config;
  config.format = DataConfig::Format::kCriteo;
  config.criteo.fit = true;
  config.train = std::move(files);
  return config;
}

FeatureConfig Quantiles(const std::string& column, uint32_t count) {
  FeatureConfig feature = Feature(column + "_group");
  feature.column = column;
  feature.processing.quantiles = count;
  return feature;
}

TEST_CASE("Without training files numbers are not scaled, and weights are as they are") {
  DataConfig config;
  config.columns = {{.name = "price", .kind = ColumnConfig::Kind::kDense, .fit = true},
                    {.name = "weight", .kind = ColumnConfig::Kind::kWeight, .fit = true}};
  std::vector<FeatureConfig> features;
  REQUIRE(FitStatistics(config, features) == absl::OkStatus());
  CHECK(config.columns[0].mean == 0);
  CHECK(config.columns[0].stddev == 1);
  CHECK(config.columns[1].mean == 1);
}

TEST_CASE("Criteo's dense columns, fitted, have mean 0 and deviation 1 where they are there") {
  const TemporaryFolder folder;
  DataConfig config = Criteo({folder.Write("a.tsv", GeneratedText())});
  std::vector<FeatureConfig> features = {Feature("C1"), Quantiles("I2", 4)};
  REQUIRE(FitStatistics(config, features) == absl::OkStatus());
  DataConfig plain = config;
  plain.criteo = {};
  const auto fitted = ReadSamples(config, features, config.train, kRows);
  const auto raw = ReadSamples(plain, features, config.train, kRows);
  REQUIRE((fitted.ok() && raw.ok()));
  REQUIRE(fitted->size() == kRows);
  for (size_t column = 0; column < 13; ++column) {
    double sum = 0;
    double squares = 0;
    for (size_t n = 0; n < kRows; ++n) {
      const double value = (*fitted)[n].dense[column];
      sum += value;  // A missing one is 0.
      squares += value * value;
      if ((*raw)[n].dense[column] == 0.0F) continue;  // Missing, or the logarithm of 1.
      REQUIRE(value == Approx(((*raw)[n].dense[column] - config.criteo.mean[column]) /
                              config.criteo.stddev[column])
                           .margin(1e-5));
    }
    CHECK(sum / kRows == Approx(0).margin(1e-4));
    CHECK(squares / kRows == Approx(0.9).margin(0.03));  // A tenth is missing.
  }
  std::vector<double> sizes(4);
  for (const ReadSample& sample : *fitted) {
    for (const uint64_t id : sample.ids[1]) ++sizes.at(id);
  }
  for (const double size : sizes) CHECK(size > kRows * 0.9 / 8);
}

TEST_CASE("Fitted statistics, applied to the configuration, replace fitting") {
  const TemporaryFolder folder;
  DataConfig csv;
  csv.columns = {{.name = "y", .kind = ColumnConfig::Kind::kLabel},
                 {.name = "x", .kind = ColumnConfig::Kind::kDense, .fit = true},
                 {.name = "z", .kind = ColumnConfig::Kind::kDense, .mean = 2}};
  csv.train = {folder.Write("a.csv", "1,0.1,3\n0,0.7,4\n1,-5.3,8\n0,2,2.5\n")};
  for (const DataConfig& data : {Criteo({folder.Write("a.tsv", GeneratedText())}), csv}) {
    const bool is_csv = data.format == DataConfig::Format::kCsv;
    const std::vector<FeatureConfig> features = {is_csv ? Quantiles("z", 3) : Quantiles("I2", 4)};
    DataConfig fitted = data;
    std::vector<FeatureConfig> fitted_features = features;
    REQUIRE(FitStatistics(fitted, fitted_features) == absl::OkStatus());
    const Statistics statistics = StatisticsOf(fitted, fitted_features);
    CHECK(statistics.size() == (is_csv ? 2 : 14));
    DataConfig applied = data;
    std::vector<FeatureConfig> applied_features = features;
    REQUIRE(ApplyStatistics(statistics, applied, applied_features) == absl::OkStatus());
    CHECK(StatisticsOf(applied, applied_features) == statistics);
    const auto expected = ReadSamples(fitted, fitted_features, data.train, kRows);
    const auto actual = ReadSamples(applied, applied_features, data.train, kRows);
    REQUIRE((expected.ok() && actual.ok()));
    REQUIRE(expected->size() == (is_csv ? 4 : kRows));
    for (size_t n = 0; n < expected->size(); ++n) {
      CHECK((*actual)[n].dense == (*expected)[n].dense);
      CHECK((*actual)[n].ids == (*expected)[n].ids);
    }
  }
}

TEST_CASE("Statistics are of the first fit_rows rows, over all files") {
  const TemporaryFolder folder;
  DataConfig config;
  config.columns = {{.name = "y", .kind = ColumnConfig::Kind::kLabel},
                    {.name = "x", .kind = ColumnConfig::Kind::kDense, .fit = true}};
  config.train = {folder.Write("a.csv", "1,2\n0,4\n"), folder.Write("b.csv", "1,9\n0,1000\n")};
  config.fit_rows = GENERATE(3, 0);
  std::vector<FeatureConfig> features;
  REQUIRE(FitStatistics(config, features) == absl::OkStatus());
  CHECK(config.columns[1].mean == Approx(config.fit_rows == 3 ? 5.0 : 253.75));
}

TEST_CASE("Statistics do not depend on how files are compressed or parted") {
  const TemporaryFolder folder;
  const std::string text = GeneratedText();
  const size_t middle = text.find('\n', text.size() / 2) + 1;
  const std::vector<std::vector<std::string>> layouts = {
      {folder.Write("a.tsv", text)},
      {folder.Write("a.gz", Gzip(text))},
      {folder.Write("a.zst", Zstd(text))},
      {folder.Write("b.gz", Gzip(text.substr(0, middle))),
       folder.Write("b.zst", Zstd(text.substr(middle)))}};
  std::vector<double> mean;
  std::vector<double> boundaries;
  for (const auto& files : layouts) {
    DataConfig config = Criteo(files);
    std::vector<FeatureConfig> features = {Quantiles("I3", 5)};
    REQUIRE(FitStatistics(config, features) == absl::OkStatus());
    if (mean.empty()) mean = config.criteo.mean;
    if (boundaries.empty()) boundaries = features[0].processing.boundaries;
    CHECK(mean.size() == 13);
    CHECK(config.criteo.mean == mean);
    CHECK(boundaries.size() == 4);
    CHECK(features[0].processing.boundaries == boundaries);
  }
}

TEST_CASE("CSV columns, fitted, have mean 0 and deviation 1, and fitting again changes nothing") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::string text;
    for (int n = 0; n < 300; ++n) text += "1," + std::to_string(5 + random.Normal() * 3) + "\n";
    const TemporaryFolder folder;
    DataConfig config;
    config.columns.resize(2);
    config.columns[0] = {.name = "y", .kind = ColumnConfig::Kind::kLabel};
    config.columns[1] = {.name = "x", .kind = ColumnConfig::Kind::kDense, .fit = true};
    config.train = {folder.Write("a.zst", Zstd(text))};
    std::vector<FeatureConfig> features;
    REQUIRE(FitStatistics(config, features) == absl::OkStatus());
    const double mean = config.columns[1].mean;
    REQUIRE(FitStatistics(config, features) == absl::OkStatus());
    REQUIRE(config.columns[1].mean == mean);
    const auto samples = ReadSamples(config, {}, config.train, 300);
    REQUIRE(samples.ok());
    double sum = 0;
    double squares = 0;
    for (const ReadSample& sample : *samples) {
      sum += sample.dense[0];
      squares += sample.dense[0] * sample.dense[0];
    }
    REQUIRE(sum / 300 == Approx(0).margin(1e-5));
    REQUIRE(squares / 300 == Approx(1).epsilon(1e-4));
  }
}

TEST_CASE("A number that makes up most of a column's deviation is named in the log") {
  const auto log_of = [](const std::string& number) {
    Random random(1);
    std::string text = "1," + number + "\n";
    for (int n = 0; n < 2'000; ++n) text += "1," + std::to_string(random.Normal()) + "\n";
    const TemporaryFolder folder;
    DataConfig config;
    config.columns = {{.name = "y", .kind = ColumnConfig::Kind::kLabel},
                      {.name = "x", .kind = ColumnConfig::Kind::kDense, .fit = true}};
    config.train = {folder.Write("a.csv", text)};
    std::vector<FeatureConfig> features;
    const testing::LogLines lines;
    REQUIRE(FitStatistics(config, features) == absl::OkStatus());
    return lines.text();
  };
  CHECK(log_of("10").empty());
  CHECK_THAT(log_of("-1e20"),
             Catch::StartsWith("warning: column 'x': one number of 2001, -1e+20, makes up most "
                               "of the standard deviation, 2.2"));
}

TEST_CASE("Rows that a feature refuses count in no statistics, as if they were not there") {
  const auto fitted = [](const std::string& text) {
    const TemporaryFolder folder;
    using Kind = ColumnConfig::Kind;
    DataConfig config;
    config.columns = {Column("y", Kind::kLabel),     Column("x", Kind::kDense),
                      Column("age", Kind::kId),      Column("colour", Kind::kId),
                      Column("weighted", Kind::kId), Column("a", Kind::kId),
                      Column("b", Kind::kId)};
    config.columns[1].fit = true;
    for (const size_t list : {5, 6}) config.columns[list].separator = '|';
    config.on_bad_row = DataConfig::OnBadRow::kSkip;
    config.max_bad_share = 1;
    config.train = {folder.Write("a.csv", text)};
    std::vector<FeatureConfig> features = {Quantiles("age", 2), Feature("colour"),
                                           Feature("weighted"), Feature("crossed")};
    features[0].processing.missing = ProcessingConfig::Missing::kFail;
    features[1].processing.vocabulary = {"red", "blue"};
    features[1].processing.oov_ids = 0;
    features[1].processing.missing = ProcessingConfig::Missing::kFail;
    features[2].weight_separator = ':';
    features[3].columns = {"a", "b"};
    REQUIRE(FitStatistics(config, features) == absl::OkStatus());
    const auto samples = ReadSamples(config, features, config.train, 100);
    REQUIRE(samples.ok());
    CHECK(samples->size() == 3);
    std::vector<double> statistics = features[0].processing.boundaries;
    statistics.push_back(config.columns[1].mean);
    statistics.push_back(config.columns[1].stddev);
    return statistics;
  };
  std::string many = "0";
  for (int i = 1; i < 300; ++i) many += "|" + std::to_string(i);
  const std::string first = "1,1,20,red,v:2,1,2\n0,3,30,blue,w,1,2\n";
  const std::string last = "1,8,40,red,v:0.5,1|2,2\n";
  const auto good = fitted(first + last);
  CHECK(good == std::vector<double>{30, 4, std::sqrt(26.0 / 3)});
  CHECK(fitted(first + "0,900,900,green,v,1,2\n" + last) == good);
  CHECK(fitted(first + "0,900,,red,v,1,2\n" + last) == good);
  CHECK(fitted(first + "0,900,900,red,v:heavy,1,2\n" + last) == good);
  CHECK(fitted(first + "0,900,900,red,v," + many + "," + many + "\n" + last) == good);
}

TEST_CASE("What cannot be fitted is refused by name") {
  const TemporaryFolder folder;
  std::string line = "1";
  for (int i = 1; i <= 13; ++i) line += "\t7";
  for (int i = 1; i <= 26; ++i) line += "\tff";
  DataConfig config = Criteo({folder.Write("a.tsv", line + "\n" + line + "\n")});
  std::vector<FeatureConfig> features;
  REQUIRE(FitStatistics(config, features).ok());  // All numbers of a column are the same.
  CHECK(config.criteo.mean == std::vector<double>(13, std::log1p(7.0)));
  CHECK(config.criteo.stddev == std::vector<double>(13, 1.0));
  config.train = {folder.Write("torn.gz", Gzip(GeneratedText()).substr(0, 1'000))};
  CHECK(FitStatistics(config, features).code() == absl::StatusCode::kDataLoss);
  config.criteo.fit = false;
  features = {Quantiles("C1", 3)};
  config.train = {folder.Write("b.tsv", line + "\n")};
  CHECK_THAT(
      std::string(FitStatistics(config, features).message()),
      Catch::EndsWith("b.tsv:1: feature 'C1_group': 'ff' is not a finite number; correct it, or "
                      "add it to data.missing_values"));
}

}  // namespace
}  // namespace simurgh
