// Plug-ins, right and wrong ones, through the reader.

#include <cmath>
#include <string>
#include <thread>
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

const std::string kFolder = PLUGIN_FOLDER;

// y,x,word.
DataConfig Example() {
  DataConfig config;
  config.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense),
                    Column("word", Kind::kId)};
  config.columns[2].separator = '|';
  return config;
}

PluginConfig SoftBins(std::vector<std::string> anchors) {
  return {.path = kFolder + "soft_bins.so", .parameters = std::move(anchors)};
}

FeatureConfig WithPlugin(const std::string& column, PluginConfig plugin) {
  FeatureConfig feature = Feature("f");
  feature.column = column;
  feature.processing.plugin = std::move(plugin);
  return feature;
}

FeatureConfig Bad(const std::string& name) {
  return WithPlugin("word", {.path = kFolder + name + ".so", .max_ids = 4});
}

// Error of opening a reader.
std::string OpenError(const FeatureConfig& feature) {
  const TemporaryFolder folder;
  const auto reader = OpenBatchReader(Example(), {feature}, {folder.Write("a.csv", "1,1,a\n")}, 4);
  CHECK(absl::IsInvalidArgument(reader.status()));
  return std::string(reader.status().message());
}

std::vector<float> WeightsOf(const Batch& batch, size_t sample) {
  const FeatureView view = batch.sparse->feature(0);
  std::vector<float> weights;
  for (uint32_t i = view.offsets[sample]; i < view.offsets[sample + 1]; ++i) {
    weights.push_back(view.weights.empty() ? 1.0F : view.weights[i - view.offsets[0]]);
  }
  return weights;
}

TEST_CASE("A plug-in makes ids with weights, and the other steps follow") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("a.csv", "1,25,a\n0,5,a\n1,,a\n0,40,a\n");
  FeatureConfig feature = WithPlugin("x", SoftBins({"10", "20", "40"}));
  const auto samples = ReadSamples(Example(), {feature, Feature("word")}, {file});
  REQUIRE(samples.status() == absl::OkStatus());
  CHECK((*samples)[0].ids[0] == Ids{1, 2});
  CHECK((*samples)[1].ids[0] == Ids{0});
  CHECK((*samples)[2].ids[0].empty());
  CHECK((*samples)[3].ids[0] == Ids{2});
  auto reader = OpenBatchReader(Example(), {feature, Feature("word")}, {file}, 4);
  const auto batch = (*reader)->Next();
  REQUIRE((batch.ok() && batch->has_value()));
  CHECK(WeightsOf(**batch, 0) == std::vector<float>{0.75F, 0.25F});
  CHECK(WeightsOf(**batch, 1) == std::vector<float>{1.0F});

  feature.processing.missing = ProcessingConfig::Missing::kId;
  feature.processing.max_length = 2;
  feature.processing.pad = true;
  feature.hash_stack = {.rounds = 2, .buckets = 10};
  reader = OpenBatchReader(Example(), {feature}, {file}, 4);
  const auto folded = (*reader)->Next();
  REQUIRE((folded.ok() && folded->has_value()));
  REQUIRE((*folded)->sparse->Validate().ok());
  CHECK(WeightsOf(**folded, 0) == std::vector<float>{0.75F, 0.75F, 0.25F, 0.25F});
  CHECK(WeightsOf(**folded, 2) == std::vector<float>(4, 1.0F));
}

TEST_CASE("A plug-in makes dense values behind those of the file") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.derived = {
      {.name = "bin", .columns = {"x"}, .width = 3, .plugin = SoftBins({"10", "20", "40"})}};
  CHECK(DenseColumns(config) == std::vector<std::string>{"x", "bin.0", "bin.1", "bin.2"});
  const auto samples =
      ReadSamples(config, {Feature("word")}, {folder.Write("a.csv", "1,25,a\n0,90,a\n1,,a\n")});
  REQUIRE(samples.status() == absl::OkStatus());
  CHECK((*samples)[0].dense == std::vector<float>{25, 0, 0.75F, 0.25F});
  CHECK((*samples)[1].dense == std::vector<float>{90, 0, 0, 1});
  CHECK((*samples)[2].dense == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("Soft bins share out every value whole, to its neighbours") {
  const std::vector<double> anchors = {-1.5, 0, 2, 2.25, 100};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::string text;
    std::vector<float> values(50);
    for (float& value : values) {
      value = static_cast<float>(random.Normal() * 10);
      text += "1," + std::to_string(value) + ",a\n";
    }
    const TemporaryFolder folder;
    DataConfig config = Example();
    config.derived = {{.name = "bin",
                       .columns = {"x"},
                       .width = 5,
                       .plugin = SoftBins({"-1.5", "0", "2", "2.25", "100"})}};
    const auto samples = ReadSamples(config, {Feature("word")}, {folder.Write("a.csv", text)}, 50);
    REQUIRE(samples.status() == absl::OkStatus());
    for (size_t i = 0; i < values.size(); ++i) {
      double sum = 0;
      double mean = 0;
      for (size_t a = 0; a < anchors.size(); ++a) {
        sum += (*samples)[i].dense[1 + a];
        mean += (*samples)[i].dense[1 + a] * anchors[a];
      }
      REQUIRE(sum == Approx(1));
      // Shares are those of a straight line, so the anchors' mean by them is the value.
      REQUIRE(mean == Approx(std::max(values[i], -1.5F)).margin(1e-4));
    }
  }
}

TEST_CASE("Objects that are no good plug-ins are refused by name") {
  CHECK_THAT(
      OpenError(Bad("nowhere")),
      Catch::StartsWith("feature 'f': plug-in " + kFolder + "nowhere.so: cannot be loaded: ") &&
          Catch::Contains("No such file") && Catch::Contains("check the path"));
  CHECK_THAT(OpenError(Bad("no_plugin")),
             Catch::Contains("no_plugin.so: is not a plug-in: it does not export "
                             "simurgh_plugin_entry()"));
  CHECK_THAT(OpenError(Bad("bad_abi")),
             Catch::Contains("bad_abi.so: has plug-in ABI 2, this program requires 1"));
  CHECK_THAT(OpenError(Bad("bad_no_create")),
             Catch::Contains("bad_no_create.so: lacks create, process or destroy"));
  CHECK_THAT(OpenError(Bad("bad_null")), Catch::Contains("returns null"));
  CHECK_THAT(OpenError(Bad("bad_refuses")),
             Catch::EndsWith("bad_refuses.so refuses its columns or parameters: not on a\\nMonday; "
                             "correct columns or plugin.parameters"));
  CHECK_THAT(
      OpenError(WithPlugin("x", SoftBins({"2", "1"}))),
      Catch::Contains("anchor 1 is not above the previous one; give them in ascending order"));
  CHECK_THAT(OpenError(WithPlugin("x", SoftBins({}))), Catch::Contains("anchors as parameters"));
}

TEST_CASE("A row that a plug-in rejects follows the policy for bad rows") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("a.csv", "1,1,ok\n1,1,bad|b\n1,1,many\n0,1,nan\n0,1,ok\n");
  DataConfig config = Example();
  const std::string prefix = "feature 'f': plug-in " + kFolder + "bad_misbehaves.so: ";
  CHECK(ReadSamples(config, {Bad("bad_misbehaves")}, {file}).status().message() ==
        file + ":2: " + prefix + "no reason given (of 'bad', 'b')");
  CHECK(ReadSamples(config, {Bad("bad_misbehaves")}, {folder.Write("b.csv", "1,1,many\n")})
            .status()
            .message() == folder.Path("b.csv") + ":1: " + prefix +
                              "makes 5 ids, plugin.max_ids is 4; raise it (of 'many')");
  CHECK(ReadSamples(config, {Bad("bad_misbehaves")}, {folder.Write("c.csv", "1,1,nan\n")})
            .status()
            .message() ==
        folder.Path("c.csv") + ":1: " + prefix + "a weight is not finite (of 'nan')");
  FeatureConfig needed = Bad("bad_misbehaves");
  needed.processing.missing = ProcessingConfig::Missing::kFail;
  CHECK(ReadSamples(config, {needed}, {file}).status().message() ==
        file +
            ":1: feature 'f': the plug-in makes no ids (of 'ok'); correct the row, or choose "
            "another rule for `missing`");
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  const auto samples = ReadSamples(config, {Bad("bad_misbehaves")}, {file});
  REQUIRE(samples.status() == absl::OkStatus());
  CHECK(samples->size() == 2);

  config.derived = {{.name = "d",
                     .columns = {"word"},
                     .width = 2,
                     .plugin = {.path = kFolder + "bad_misbehaves.so"}}};
  config.on_bad_row = DataConfig::OnBadRow::kFail;
  CHECK_THAT(
      std::string(ReadSamples(config, {Feature("word")}, {folder.Write("d.csv", "1,1,nan\n")})
                      .status()
                      .message()),
      Catch::Contains("derived column 'd'") && Catch::Contains("a dense value is not finite"));
}

// Whether it makes ids of the row, or dense values.
TEST_CASE("Rows that a plug-in refuses count in no statistics, as if they were not there") {
  const bool makes_ids = GENERATE(true, false);
  CAPTURE(makes_ids);
  const auto fitted = [makes_ids](const std::string& text) {
    const TemporaryFolder folder;
    DataConfig config = Example();
    config.columns[1].fit = true;
    config.on_bad_row = DataConfig::OnBadRow::kSkip;
    config.train = {folder.Write("a.csv", text)};
    FeatureConfig binned = Feature("binned");
    binned.column = "x";
    binned.processing.quantiles = 2;
    std::vector<FeatureConfig> features = {binned,
                                           makes_ids ? Bad("bad_misbehaves") : Feature("word")};
    if (!makes_ids) {
      config.derived = {{.name = "d",
                         .columns = {"word"},
                         .width = 2,
                         .plugin = {.path = kFolder + "bad_misbehaves.so"}}};
    }
    REQUIRE(FitStatistics(config, features) == absl::OkStatus());
    std::vector<double> statistics = features[0].processing.boundaries;
    statistics.push_back(config.columns[1].mean);
    statistics.push_back(config.columns[1].stddev);
    return statistics;
  };
  const std::string first = "1,1,ok\n0,3,ok\n";
  const std::string last = "1,8,ok\n";
  const auto good = fitted(first + last);
  CHECK(good == std::vector<double>{3, 4, std::sqrt(26.0 / 3)});
  CHECK(fitted(first + "0,900,bad\n0,-7,nan\n" + last) == good);
  if (makes_ids) CHECK(fitted("0,900,many\n" + first + last) == good);
  CHECK(fitted(first + "0,900,ok\n" + last) != good);
}

TEST_CASE("A plug-in that cannot continue ends the first pass for statistics, too") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.columns[1].fit = true;
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  config.train = {folder.Write("a.csv", "1,1,ok\n1,2,fail\n")};
  std::vector<FeatureConfig> features = {Bad("bad_misbehaves")};
  const Status status = FitStatistics(config, features);
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(status.message()),
             Catch::StartsWith(folder.Path("a.csv") + ":2: ") &&
                 Catch::EndsWith("cannot continue: its disk is gone (at 'fail')"));
}

TEST_CASE("A plug-in that cannot continue ends the reading, whatever the policy") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  const Status status =
      ReadSamples(config, {Bad("bad_misbehaves")}, {folder.Write("a.csv", "1,1,ok\n1,1,fail\n")})
          .status();
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(status.message()),
             Catch::StartsWith(folder.Path("a.csv") + ":2: ") &&
                 Catch::EndsWith("cannot continue: its disk is gone (at 'fail')"));
}

TEST_CASE("Instances are independent: readers on several threads agree, in any order of closing") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 2'000; ++i) text += "1," + std::to_string(i % 70) + ",a\n";
  const std::string file = folder.Write("a.csv", text);
  const FeatureConfig feature = WithPlugin("x", SoftBins({"10", "20", "40"}));
  std::vector<StatusOr<std::vector<ReadSample>>> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back([&] {
        auto reader = OpenBatchReader(Example(), {feature}, {file}, 2'000);
        const auto batch = (*reader)->Next();
        std::vector<ReadSample> samples(1);
        for (const uint32_t o : (*batch)->sparse->occurrences) samples[0].ids.push_back({o});
        for (const float w : (*batch)->sparse->weights) samples[0].dense.push_back(w);
        result = std::move(samples);
      });
    }
  }
  for (const auto& result : results) {
    REQUIRE(result.ok());
    CHECK(!(*result)[0].dense.empty());
    CHECK((*result)[0].dense == (*results[0])[0].dense);
    CHECK((*result)[0].ids == (*results[0])[0].ids);
  }
}

}  // namespace
}  // namespace simurgh
