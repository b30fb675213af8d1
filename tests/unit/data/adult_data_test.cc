#include <filesystem>
#include <string>

#include <absl/strings/str_cat.h>

#include <catch2/catch.hpp>

#include "data/reading/byte_stream.h"
#include "data/reading/csv_cells.h"
#include "tests/support/skip.h"
#include "tests/unit/data/reader_test_support.h"

// The committed Adult data; tests run in the repository's root.
namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;

DataConfig Adult() {
  DataConfig config;
  config.missing_values = {"?"};
  for (const auto& [name, kind] : {std::pair{"age", Kind::kDense},
                                   {"workclass", Kind::kId},
                                   {"fnlwgt", Kind::kSkip},
                                   {"education", Kind::kId},
                                   {"education_num", Kind::kDense},
                                   {"marital_status", Kind::kId},
                                   {"occupation", Kind::kId},
                                   {"relationship", Kind::kId},
                                   {"race", Kind::kId},
                                   {"gender", Kind::kId},
                                   {"capital_gain", Kind::kDense},
                                   {"capital_loss", Kind::kDense},
                                   {"hours_per_week", Kind::kDense},
                                   {"native_country", Kind::kId},
                                   {"income", Kind::kLabel}}) {
    ColumnConfig column;
    column.name = name;
    column.kind = kind;
    if (kind == Kind::kLabel) column.positive = {">50K"};
    config.columns.push_back(column);
  }
  return config;
}

struct Part {
  const char* file;
  const char* official;
  size_t rows;
  size_t positives;
};

constexpr Part kTrain = {"config/data/adult/adult.train.csv.zst", "../shared/data/adult/adult.data",
                         32'561, 7'841};
constexpr Part kTest = {"config/data/adult/adult.test.csv.zst", "../shared/data/adult/adult.test",
                        16'281, 3'846};

TEST_CASE("The Adult files have the official counts") {
  const Part part = GENERATE(kTrain, kTest);
  std::vector<FeatureConfig> features;
  for (const ColumnConfig& column : Adult().columns) {
    if (column.kind == Kind::kId) features.push_back(Feature(column.name));
  }
  REQUIRE(features.size() == 8);
  const auto samples = ReadSamples(Adult(), features, {part.file}, 128);
  REQUIRE(samples.ok());
  CHECK(samples->size() == part.rows);
  size_t positives = 0;
  for (const ReadSample& sample : *samples) positives += sample.label == 1.0F ? 1 : 0;
  CHECK(positives == part.positives);
}

std::vector<std::vector<std::string>> Cells(const std::string& path) {
  auto stream = OpenByteStream(path);
  REQUIRE(stream.ok());
  LineReader lines(std::move(*stream));
  CsvSplitter splitter(',');
  std::vector<std::vector<std::string>> rows;
  for (;;) {
    const auto line = lines.Next();
    REQUIRE(line.ok());
    if (!line->has_value()) return rows;
    if ((*line)->text.empty()) continue;
    const auto cells = splitter.Split((*line)->text);
    REQUIRE(cells.ok());
    rows.emplace_back((*cells)->begin(), (*cells)->end());
  }
}

TEST_CASE("The Adult files equal the official ones line by line") {
  const Part part = GENERATE(kTrain, kTest);
  if (!std::filesystem::exists(part.official)) {
    SIMURGH_SKIP(absl::StrCat("there is no file ", part.official));
  }
  const auto ours = Cells(part.file);
  const auto official = Cells(part.official);
  REQUIRE(ours.size() == part.rows);
  REQUIRE(ours == official);
}

}  // namespace
}  // namespace simurgh
