// Columns found by name, with the shortest configuration: training, saved model, prediction.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/cluster/trained_model.h"
#include "tests/support/temporary_folder.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Row = std::vector<std::string>;

const Row kNames = {"clicked", "site", "ad", "age"};
// Further columns, and the order of columns in files that have them.
const Row kOthers = {"row id", "note"};
const std::vector<size_t> kOrder = {3, 4, 1, 5, 0, 2};

std::vector<Row> Clicks(uint64_t seed, size_t count) {
  Random random(seed);
  std::vector<Row> rows;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t site = random.Below(30);
    const uint64_t ad = random.Below(10);
    const bool clicked = random.Uniform() < 0.1 + 0.8 * static_cast<double>(site % 5 > ad % 3);
    rows.push_back({clicked ? "1" : "0", absl::StrCat("\"site, ", site, "\""),
                    absl::StrCat("ad", ad), absl::StrCat(20 + random.Below(40))});
  }
  return rows;
}

std::string InOrder(const std::vector<Row>& rows) {
  std::string text = absl::StrJoin(kNames, ",") + "\n";
  for (const Row& row : rows) absl::StrAppend(&text, absl::StrJoin(row, ","), "\n");
  return text;
}

// order: of the columns, those of kOthers at last.
std::string Shuffled(const std::vector<Row>& rows, const std::vector<size_t>& order) {
  std::string text;
  const auto append = [&](Row row) {
    Row cells;
    for (const size_t column : order) cells.push_back(row[column]);
    absl::StrAppend(&text, absl::StrJoin(cells, ","), "\n");
  };
  Row names = kNames;
  names.insert(names.end(), kOthers.begin(), kOthers.end());
  append(names);
  for (size_t i = 0; i < rows.size(); ++i) {
    Row row = rows[i];
    row.push_back(absl::StrCat(i));
    row.emplace_back("\"a \"\"note\"\", of none\"");
    append(row);
  }
  return text;
}

// A run of `simurgh train`, whose daemons listen in the folder.
struct Run {
  Run(const std::string& train, const std::string& test, const std::string& more = "",
      size_t loaders = 0) {
    folder.Write("train.csv", train);
    folder.Write("test.csv", test);
    const std::string config = folder.Write("clicks.yaml", R"(
data:
  train: [train.csv]
  test: [test.csv]
  csv:
    header: true
  columns:
    - {name: clicked, kind: label}
    - {name: site, kind: id}
    - {name: ad, kind: id}
    - {name: age, kind: dense, fit: true}
model: deepfm
)");
    std::string command = absl::StrCat("train ", config,
                                       " --set training.mode=sync --set training.batch_size=50"
                                       " --set checkpoint.directory=model ",
                                       more);
    for (const char* section : {"embedding_ps", "embedding_worker", "nn_worker"}) {
      absl::StrAppend(&command, " --set '", section, ".instances=[{address: \"unix://",
                      folder.path(), "/", section, "\"}]'");
    }
    std::string instances;
    for (size_t i = 0; i < loaders; ++i) instances += "{},";
    absl::StrAppend(&command, " --set 'loaders.instances=[", instances, "]'");
    const CommandResult trained = Simurgh(command);
    error = trained.error;
    exit_code = trained.exit_code;
    const size_t end = trained.out.rfind(" samples_per_sec");
    result = trained.out.substr(0, end);
    result = result.substr(result.rfind('\n') + 1);
  }

  // Predictions, with columns.
  std::string Predict(const std::string& text, const std::string& options) const {
    const std::string input = folder.Write("input.csv", text);
    const CommandResult predicted = Simurgh(absl::StrCat(
        "predict --model ", folder.Path("model"), " --input ", input, " --output - ", options));
    INFO(predicted.error);
    REQUIRE(predicted.exit_code == 0);
    return predicted.out;
  }

  TemporaryFolder folder;
  int exit_code = -1;
  std::string result;
  std::string error;
};

TEST_CASE("Files with columns in any order train, save and predict alike") {
  const std::vector<Row> train = Clicks(1, 1'000);
  const std::vector<Row> test = Clicks(2, 300);
  const Run ordered(InOrder(train), InOrder(test));
  INFO(ordered.error);
  REQUIRE(ordered.exit_code == 0);
  const Run shuffled(Shuffled(train, kOrder), Shuffled(test, {5, 2, 1, 0, 4, 3}));
  INFO(shuffled.error);
  REQUIRE(shuffled.exit_code == 0);
  CHECK_THAT(shuffled.result, Catch::StartsWith("test_auc=0."));
  CHECK(shuffled.result == ordered.result);
  const Run fed(Shuffled(train, kOrder), Shuffled(test, kOrder), "", /*loaders=*/2);
  INFO(fed.error);
  CHECK(fed.result == ordered.result);
  // The model was saved with rows to check it by, in the configured order.
  const std::string saved = ordered.Predict(InOrder(test), "--columns site,clicked,age");
  CHECK(shuffled.Predict(Shuffled(test, kOrder), "--columns site,clicked,age") == saved);
  CHECK(Lines(saved).size() == test.size() + 1);
  // Labels may be missing.
  const std::string without =
      shuffled.Predict(Shuffled(test, {5, 2, 1, 4, 3}), "--columns ad,clicked");
  CHECK(without == [&] {
    std::string text = "ad,clicked,p\n";
    const std::vector<std::string> lines = Lines(saved);
    for (size_t i = 0; i < test.size(); ++i) {
      absl::StrAppend(&text, test[i][2], ",,", lines[i + 1].substr(lines[i + 1].rfind(',') + 1),
                      "\n");
    }
    return text;
  }());
}

TEST_CASE("Cells with line ends train, save and predict as others do") {
  const auto broken = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{"site, ", "site\n"}});
  };
  const std::string train = InOrder(Clicks(1, 1'000));
  const std::string test = InOrder(Clicks(2, 300));
  const Run run(broken(train), broken(test));
  INFO(run.error);
  REQUIRE(run.exit_code == 0);
  const std::string evaluated = run.Predict(broken(test), "--columns age --evaluate");
  CHECK(Lines(evaluated).size() == 301);
}

TEST_CASE("A file without a column is refused with the nearest name") {
  const std::vector<Row> rows = Clicks(1, 100);
  std::string text = InOrder(rows);
  text.replace(text.find("site"), 4, "sites");
  const Run run(text, InOrder(rows));
  CHECK(run.exit_code != 0);
  CHECK_THAT(run.error, Contains("train.csv:1: the header has no column 'site'; the nearest column "
                                 "is 'sites'; rename it, or set data.columns.1.header_name"));
  const Run strict(Shuffled(rows, kOrder), InOrder(rows), "--set data.csv.strict=true");
  CHECK(strict.exit_code != 0);
  CHECK_THAT(strict.error, Contains("data.columns has no column 'row id' of the header"));
}

}  // namespace
}  // namespace simurgh::testing
