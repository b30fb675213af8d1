// Feature processing as the reader does it: YAML's structs in, batches out.

#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "data/processing/feature_ids.h"
#include "data/reading/bad_row_file.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;
using Ids = std::vector<uint64_t>;

// y,x,city,tags.
DataConfig Example() {
  DataConfig config;
  config.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense), Column("city", Kind::kId),
                    Column("tags", Kind::kId)};
  config.columns[3].separator = '|';
  return config;
}

TEST_CASE("Crosses, buckets and lists come out of a file") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("a.csv", "1,2.5,Oslo,a|b|c\n0,-1,,a\n1,,Rome,\n");
  FeatureConfig cross = Feature("cross");
  cross.columns = {"city", "tags"};
  FeatureConfig bucket = Feature("bucket");
  bucket.column = "x";
  bucket.processing.boundaries = {0.0, 2.0};
  bucket.processing.missing = ProcessingConfig::Missing::kId;
  FeatureConfig two = Feature("tags");
  two.processing.max_length = 2;
  two.processing.pad = true;
  const auto samples = ReadSamples(Example(), {cross, bucket, two}, {file});
  REQUIRE(samples.ok());
  REQUIRE(samples->size() == 3);
  const auto h = [](const char* text) { return HashText(text, 0); };
  const auto crossed = [&](const char* tag) { return CrossIds(Ids{h("Oslo"), h(tag)}, 0); };
  CHECK((*samples)[0].ids ==
        std::vector<Ids>{{crossed("a"), crossed("b"), crossed("c")}, {2}, {h("a"), h("b")}});
  CHECK((*samples)[1].ids == std::vector<Ids>{{}, {0}, {h("a"), kPaddingId}});
  CHECK((*samples)[2].ids == std::vector<Ids>{{}, {kMissingId}, {kPaddingId, kPaddingId}});
}

TEST_CASE("Features of one table share a list of ids, others have their own") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("a.csv", "1,1,Oslo,Rome|Oslo\n0,1,Rome,Bonn\n1,1,Bonn,\n");
  std::vector<FeatureConfig> features = {Feature("city"), Feature("x"), Feature("tags")};
  features[0].table_index = 3;
  features[1].table_index = 0;
  features[2].table_index = 3;
  const auto reader = OpenBatchReader(Example(), features, {file}, 3);
  REQUIRE(reader.ok());
  const auto batch = (*reader)->Next();
  REQUIRE((batch.ok() && batch->has_value()));
  const CompactBatch& sparse = *(*batch)->sparse;
  CHECK(sparse.lists == std::vector<uint32_t>{0, 1, 0});
  const auto h = [](const char* text) { return HashText(text, 0); };
  CHECK(sparse.ids == Ids{h("Oslo"), h("Rome"), h("Bonn"), h("1")});
  CHECK(sparse.occurrences == std::vector<uint32_t>{0, 1, 2, 0, 0, 0, 1, 0, 2});
  for (size_t f = 0; f < 3; ++f) features[f].table_index = static_cast<uint32_t>(f);
  const auto apart = OpenBatchReader(Example(), features, {file}, 3);
  CHECK((*(*apart)->Next())->sparse->lists.empty());
}

TEST_CASE("Criteo's ids are unchanged without a seed") {
  const TemporaryFolder folder;
  std::string line = "1";
  for (int i = 1; i <= 13; ++i) line += "\t" + std::to_string(i);
  for (int i = 1; i <= 26; ++i) line += "\tff";
  const std::string file = folder.Write("a.tsv", line + "\n");
  DataConfig config;
  config.format = DataConfig::Format::kCriteo;
  FeatureConfig seeded = Feature("seeded");
  seeded.column = "C2";
  seeded.processing.seed = 5;
  FeatureConfig cross = Feature("cross");
  cross.columns = {"C1", "I3"};
  const auto samples = ReadSamples(config, {Feature("C1"), seeded, cross}, {file});
  REQUIRE(samples.ok());
  CHECK((*samples)[0].ids ==
        std::vector<Ids>{{255}, {HashInteger(255, 5)}, {CrossIds(Ids{255, HashText("3", 0)}, 0)}});
}

TEST_CASE("Bad rows end the reading, or are left out up to a limit") {
  const TemporaryFolder folder;
  const std::string file =
      folder.Write("a.csv", "1,1,Oslo,\n1,much,Rome,\n0,2,Rome,\n1,1,,\n7,1,Oslo,\n0,3,Oslo,\n");
  DataConfig config = Example();
  FeatureConfig city = Feature("city");
  city.processing.missing = ProcessingConfig::Missing::kFail;
  CHECK(ReadSamples(config, {city, Feature("tags")}, {file}).status().message() ==
        file +
            ":2: column 'x': 'much' is not a finite number; correct it, or add it to "
            "data.missing_values");
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  config.max_bad_share = 0.003;
  const auto samples = ReadSamples(config, {city, Feature("tags")}, {file});
  REQUIRE(samples.ok());
  REQUIRE(samples->size() == 3);
  CHECK((*samples)[1].dense == std::vector<float>{2.0F});
  CHECK((*samples)[1].ids[0] == Ids{HashText("Rome", 0)});
  const auto reader = OpenBatchReader(config, {city, Feature("tags")}, {file}, 10);
  REQUIRE(reader.ok());
  REQUIRE((*reader)->Next().ok());
  CHECK((*reader)->skipped_rows() == 3);
  config.max_bad_share = 0.002;
  CHECK_THAT(
      std::string(ReadSamples(config, {city, Feature("tags")}, {file}).status().message()),
      Catch::StartsWith("3 of 5 rows are bad, more than data.max_bad_share, 0.002, of 1000: " +
                        file + ":5: column 'y': '7' is not a label"));
}

TEST_CASE("Bad rows are a share of those so far, and the first ten are in a file") {
  const TemporaryFolder folder;
  std::string text;
  for (int row = 1; row <= 3'000; ++row) {
    text += row % 100 == 0 ? "2,\"a\nb\",Oslo,\n" : "1,1,Oslo,\n";
  }
  const std::string file = folder.Write("a.csv", text);
  DataConfig config = Example();
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  config.max_bad_share = 0.01;
  CheckpointConfig checkpoint;
  checkpoint.directory = folder.Path("models/m") + "/";
  const auto read_with = [&](BadRowFile& bad_rows) -> Status {
    SIMURGH_ASSIGN_OR_RETURN(const auto reader, OpenBatchReader(config, {Feature("city")}, {file},
                                                                64, {.bad_rows = &bad_rows}));
    for (;;) {
      SIMURGH_ASSIGN_OR_RETURN(const auto batch, reader->Next());
      if (batch) continue;
      CHECK(reader->skipped_rows() == 30);
      return absl::OkStatus();
    }
  };
  const auto read = [&] {
    BadRowFile bad_rows(checkpoint, "-rank-1");
    return read_with(bad_rows);
  };
  folder.Write("other", "");
  BadRowFile of_epochs(checkpoint, "-rank-1");
  for (int time = 0; time < 4; ++time) {
    REQUIRE((time < 2 ? read() : read_with(of_epochs)) == absl::OkStatus());
    std::string expected = "place,reason,row\n";
    for (int row = 1; row <= 10; ++row) {
      expected += file + ":" + std::to_string(row * 100 + row - 1) +
                  ",\"column 'y': '2' is not a label, 0 or 1; correct it, list the texts of 1 as "
                  "`positive`, or choose the loss squared_error\",\"2,\"\"a\nb\"\",Oslo,\"\n";
    }
    CHECK(ReadWholeFile(folder.Path("models/m.bad-rows-rank-1.csv")) == expected);
  }
  config.max_bad_share = 0.0099;
  CHECK_THAT(std::string(read().message()),
             Catch::StartsWith("10 of 1000 rows are bad, more than data.max_bad_share, 0.0099: " +
                               file + ":1009: "));
}

TEST_CASE("A row that a feature cannot use is refused by file, row, feature and value") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("a.csv", "1,1,7,3\n0,2,8,4\n1,3,much,\n");
  FeatureConfig city = Feature("city");
  FeatureConfig tags = Feature("tags");
  std::string error;
  SECTION("an integer") {
    city.processing.hash = ProcessingConfig::Hash::kInteger;
    error = "feature 'city': 'much' is not an integer of 64 bits";
  }
  SECTION("a number") {
    city.processing.boundaries = {0.0, 2.0};
    error = "feature 'city': 'much' is not a finite number";
  }
  SECTION("nothing") {
    tags.processing.missing = ProcessingConfig::Missing::kFail;
    error = "feature 'tags': its value is missing";
  }
  DataConfig config = Example();
  CHECK_THAT(std::string(ReadSamples(config, {city, tags}, {file}).status().message()),
             Catch::StartsWith(file + ":3: " + error));
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  const auto samples = ReadSamples(config, {city, tags}, {file});
  REQUIRE(samples.ok());
  CHECK(samples->size() == 2);
}

TEST_CASE("A line that is too long is a bad row like any") {
  const TemporaryFolder folder;
  const std::string list(2 << 20, '|');
  const std::string file =
      folder.Write("a.csv", "1,1,Oslo,\n0,2,Rome," + list + "\n1,3,Bonn,\n" + list);
  DataConfig config = Example();
  config.csv.header = GENERATE(false, true);  // A first line of numbers is a row in both cases.
  CHECK(
      ReadSamples(config, {Feature("city"), Feature("tags")}, {file}).status().message() ==
      file +
          ":2: the line is longer than 1048576 bytes; shorten it, or check whether this is a text "
          "file");
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  const auto samples = ReadSamples(config, {Feature("city"), Feature("tags")}, {file});
  REQUIRE(samples.ok());
  REQUIRE(samples->size() == 2);
  CHECK(samples->back().dense == std::vector<float>{3.0F});
  CHECK(samples->back().ids == std::vector<Ids>{{HashText("Bonn", 0)}, {}});
  config.max_bad_share = 0.001;
  CHECK_THAT(
      std::string(
          ReadSamples(config, {Feature("city"), Feature("tags")}, {file}).status().message()),
      Catch::StartsWith("2 of 4 rows are bad, more than data.max_bad_share, 0.001, of 1000: " +
                        file + ":4: the line is longer"));
}

TEST_CASE("A bad row leaves nothing to the row behind it") {
  const TemporaryFolder folder;
  // The bad one has a number and tags by the time that its city turns out to be missing.
  const std::string file = folder.Write("a.csv", "0,1,Oslo,a\n1,5,,b|c\n0,,Rome,\n");
  DataConfig config = Example();
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  FeatureConfig city = Feature("city");
  city.processing.missing = ProcessingConfig::Missing::kFail;
  const auto samples = ReadSamples(config, {Feature("tags"), city}, {file});
  REQUIRE(samples.ok());
  REQUIRE(samples->size() == 2);
  CHECK((*samples)[1].label == 0.0F);
  CHECK((*samples)[1].dense == std::vector<float>{0.0F});
  CHECK((*samples)[1].ids == std::vector<Ids>{{}, {HashText("Rome", 0)}});
}

TEST_CASE("Down-sampling leaves out negatives only, and row by row the same ones") {
  const TemporaryFolder folder;
  std::string text;
  for (int row = 0; row < 4'000; ++row) text += row % 4 == 0 ? "1,1,p,\n" : "0,1,n,\n";
  const std::string file = folder.Write("a.csv", text);
  const auto read = [&](size_t batch_size) {
    auto reader = OpenBatchReader(Example(), {Feature("city"), Feature("tags")}, {file}, batch_size,
                                  {.keep_negatives = 0.5, .seed = 1});
    REQUIRE(reader.ok());
    std::vector<float> labels;
    while (true) {
      const auto batch = (*reader)->Next();
      REQUIRE(batch.ok());
      if (!batch->has_value()) return labels;
      labels.insert(labels.end(), (*batch)->dense.labels.begin(), (*batch)->dense.labels.end());
    }
  };
  const std::vector<float> labels = read(100);
  const auto positives = std::count(labels.begin(), labels.end(), 1.0F);
  CHECK(positives == 1'000);
  CHECK(static_cast<double>(labels.size()) - 1'000 == Approx(1'500).margin(120));
  CHECK(read(7) == labels);
}

TEST_CASE("Statistics of the training files apply to the test files") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.train = {folder.Write("a.csv", "1,1,,\n0,2,,\n1,,,\n"), folder.Write("b.csv", "1,3,,\n")};
  config.columns[1].fit = true;
  config.columns[1].missing = 2.0;
  std::vector<FeatureConfig> features = {Feature("city"), Feature("tags"), Feature("bucket")};
  features[2].column = "x";
  features[2].processing.quantiles = 3;
  REQUIRE(FitStatistics(config, features).ok());
  CHECK(config.columns[1].mean == 2.0);
  CHECK(config.columns[1].stddev == Approx(std::sqrt(2.0 / 3.0)));
  CHECK(features[2].processing.boundaries == std::vector<double>{2, 3});
  const auto samples = ReadSamples(config, features, {folder.Write("t.csv", "0,2.5,,\n1,,,\n")});
  REQUIRE(samples.ok());
  CHECK((*samples)[0].dense[0] == Approx(0.5 / std::sqrt(2.0 / 3.0)));
  CHECK((*samples)[0].ids[2] == Ids{1});
  CHECK((*samples)[1].dense[0] == 0.0F);
  CHECK((*samples)[1].ids[2].empty());
}

TEST_CASE("A column of one number has the deviation 1; one of texts is refused by name") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.train = {folder.Write("a.csv", "1,1,,\n0,1,,\n")};
  config.columns[1].fit = true;
  std::vector<FeatureConfig> features;
  REQUIRE(FitStatistics(config, features) == absl::OkStatus());
  CHECK(config.columns[1].mean == 1);
  CHECK(config.columns[1].stddev == 1);
  config.train = {folder.Write("b.csv", "1,one,,\n")};
  CHECK_THAT(std::string(FitStatistics(config, features).message()),
             Catch::Contains("b.csv:1: column 'x': 'one' is not a finite number"));
}

// Train and evaluation share all code; this holds them to it.
TEST_CASE("The same rows are the same tensors in training and in evaluation") {
  const TemporaryFolder folder;
  const std::string rows = "1,2.5,Oslo,a|b|c\n0,-1,,a\n1,,Rome,\n0,4,Bonn,d|e\n";
  DataConfig config = Example();
  config.train = {folder.Write("train.csv", rows)};
  config.test = {folder.Write("test.csv", rows)};
  config.columns[1].fit = true;
  std::vector<FeatureConfig> features = {Feature("city"), Feature("tags"), Feature("bucket")};
  features[1].processing.seed = 3;
  features[1].processing.max_length = 2;
  features[2].column = "x";
  features[2].processing.quantiles = 2;
  REQUIRE(FitStatistics(config, features).ok());
  const auto train = OpenBatchReader(config, features, config.train, 4, {.keep_negatives = 1.0});
  const auto test = OpenBatchReader(config, features, config.test, 4);
  REQUIRE((train.ok() && test.ok()));
  const auto one = (*train)->Next();
  const auto other = (*test)->Next();
  REQUIRE((one.ok() && other.ok() && one->has_value() && other->has_value()));
  CHECK((*one)->dense.values == (*other)->dense.values);
  CHECK((*one)->dense.labels == (*other)->dense.labels);
  CHECK((*one)->sparse->ids == (*other)->sparse->ids);
  CHECK((*one)->sparse->occurrences == (*other)->sparse->occurrences);
  CHECK((*one)->sparse->offsets == (*other)->sparse->offsets);
}

}  // namespace
}  // namespace simurgh
