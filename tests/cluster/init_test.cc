// `simurgh init`, then `simurgh train` with the configuration as it is.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "config/data_config.h"
#include "data/reading/file_writer.h"
#include "data/reading/row_lines.h"
#include "tests/cluster/trained_model.h"
#include "tests/support/temporary_folder.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;

// Samples of a logistic model. The weight of each text is a number from a normal distribution.
class Samples {
 public:
  size_t Pick(size_t count) { return random_() % count; }
  double Normal() { return normal_(random_); }
  double Weight(const std::string& text) {
    std::mt19937 own(static_cast<uint32_t>(std::hash<std::string>()(text)));
    return 2 * std::normal_distribution<double>()(own);
  }
  bool Label(double logit) {
    return std::uniform_real_distribution<double>()(random_) < 1 / (1 + std::exp(-logit));
  }

 private:
  std::mt19937 random_{7};
  std::normal_distribution<double> normal_;
};

std::string Rows(const std::string& header, size_t rows, const std::function<std::string()>& row) {
  std::string text = header + "\n";
  for (size_t i = 0; i < rows; ++i) absl::StrAppend(&text, row(), "\n");
  return text;
}

struct Shape {
  const char* name;
  const char* file;
  double auc;  // At least.
  std::function<std::string(Samples&)> text;
};

const std::vector<Shape> kShapes = {
    {"quoted texts with separators, yes and no, a header with blanks", "quoted.csv", 0.75,
     [](Samples& samples) {
       return Rows("page title,\"time, in s\",bought it?", 3'000, [&] {
         const std::string page = absl::StrCat("page, \"\"", samples.Pick(30), "\"\"");
         return absl::StrCat("\"", page, "\", ", samples.Normal(), ",",
                             samples.Label(samples.Weight(page)) ? "yes" : "no");
       });
     }},
    {"semicolons, row numbers, a constant", "semicolons.csv", 0.8,
     [](Samples& samples) {
       size_t row = 0;
       return Rows("id;version;city;score;label", 3'000, [&] {
         const std::string city = absl::StrCat("c", samples.Pick(20));
         const double score = samples.Normal();
         return absl::StrCat(++row, ";3;", city, ";", score, ";",
                             samples.Label(samples.Weight(city) + score) ? 1 : 0);
       });
     }},
    {"tabs, no numbers, True and False, compressed", "tabs.tsv.zst", 0.8,
     [](Samples& samples) {
       return Rows("first\tsecond\ttarget", 3'000, [&] {
         const std::string a = absl::StrCat("a", samples.Pick(20));
         const std::string b = absl::StrCat("b", samples.Pick(2'000));
         return absl::StrCat(a, "\t", b, "\t", samples.Label(samples.Weight(a)) ? "True" : "False");
       });
     }},
    {"numbers only, one of them skewed", "numbers.csv", 0.85,
     [](Samples& samples) {
       return Rows("x,z,y", 3'000, [&] {
         const double x = samples.Normal();
         const double log = samples.Normal();
         return absl::StrCat(x, ",", std::exp(2 * log), ",",
                             samples.Label(2 * x + 2 * log) ? 1 : 0);
       });
     }},
    {"few rows of a single number", "few.csv", 0.8,
     [](Samples& samples) {
       return Rows("x,y", 150, [&] {
         const double x = samples.Normal();
         return absl::StrCat(x, ",", samples.Label(8 * x) ? 1 : 0);
       });
     }},
    {"lists", "lists.csv", 0.75,
     [](Samples& samples) {
       return Rows("genres,user_id,clicked", 5'000, [&] {
         std::vector<std::string> genres;
         double logit = 0;
         for (size_t n = 1 + samples.Pick(4); n > 0; --n) {
           genres.push_back(absl::StrCat("g", samples.Pick(40)));
           logit += samples.Weight(genres.back());
         }
         return absl::StrCat(absl::StrJoin(genres, "|"), ",u", samples.Pick(200), ",",
                             samples.Label(logit) ? 1 : 0);
       });
     }},
    {"missing values, a text of two as the label", "missing.csv", 0.7,
     [](Samples& samples) {
       return Rows("kind,amount,empty,outcome", 3'000, [&] {
         const std::string kind = absl::StrCat("k", samples.Pick(20));
         const double amount = samples.Normal();
         const bool label = samples.Label(samples.Weight(kind) + 2 * amount);
         return absl::StrCat(samples.Pick(10) == 0 ? "NA" : kind, ",",
                             samples.Pick(5) == 0 ? "?" : absl::StrCat(10 + 3 * amount), ",,",
                             label ? "good" : "bad");
       });
     }},
};

// Trains, and returns the AUC.
double Train(const std::string& config) {
  const CommandResult trained = Simurgh("train " + config);
  INFO(trained.error);
  REQUIRE(trained.exit_code == 0);
  const std::string key = "test_auc=";
  const size_t at = trained.out.find(key);
  REQUIRE(at != std::string::npos);
  return std::stod(trained.out.substr(at + key.size()));
}

TEST_CASE("The configuration for a CSV file of any shape trains") {
  for (const Shape& shape : kShapes) {
    SECTION(shape.name) {
      const TemporaryFolder folder;
      Samples samples;
      const std::string data = folder.Path(shape.file);
      StatusOr<FileWriter> file = FileWriter::Create(data);
      REQUIRE(file.ok());
      REQUIRE(file->Append(shape.text(samples)).ok());
      REQUIRE(file->Commit().ok());
      const CommandResult made = Simurgh("init " + data);
      INFO(made.out << made.error);
      REQUIRE(made.exit_code == 0);
      CHECK(made.error.empty());
      const std::string name = shape.file;
      const std::string stem = folder.Path(name.substr(0, name.find('.')));
      const std::string config = stem + ".yaml";
      CHECK_THAT(made.out, Catch::EndsWith(" train " + config + " --refit\n"));
      const double auc = Train(config);
      CAPTURE(auc);
      CHECK(auc >= shape.auc);
      const CommandResult model = Simurgh("model list " + stem + "-model");
      CHECK_THAT(model.out, Contains("step-"));

      const CommandResult again = Simurgh("init " + data);
      CHECK(again.exit_code == 2);
      CHECK_THAT(again.error, Contains(config + ": exists; use --force to replace it"));
      CHECK(Simurgh("init --force " + data).exit_code == 0);
    }
  }
}

// A file's rows below a header.
std::string WithHeader(const std::string& header, const std::string& path) {
  StatusOr<RowLines> lines = RowLines::Open(DataConfig(), {path});
  REQUIRE(lines.ok());
  std::string text = header + "\n";
  for (;;) {
    const auto line = lines->Next();
    REQUIRE(line.ok());
    if (!*line) return text;
    absl::StrAppend(&text, std::string((*line)->text), "\n");
  }
}

TEST_CASE("Adult, with a test file: AUC at least 0.90") {
  const TemporaryFolder folder;
  const std::string header =
      "age,workclass,fnlwgt,education,education num,marital status,occupation,relationship,race,"
      "gender,capital gain,capital loss,hours per week,native country,income";
  const std::string train =
      folder.Write("adult.csv", WithHeader(header, "config/data/adult/adult.train.csv.zst"));
  const std::string test =
      folder.Write("new.csv", WithHeader(header, "config/data/adult/adult.test.csv.zst"));
  const std::string config = folder.Path("sub.yaml");
  const CommandResult made =
      Simurgh(absl::StrCat("init ", train, " --test ", test, " --output ", config));
  INFO(made.out << made.error);
  REQUIRE(made.exit_code == 0);
  CHECK_THAT(made.out, Contains("'>50K' is 1"));
  CHECK_FALSE(std::filesystem::exists(folder.Path("adult.test.csv")));
  const double auc = Train(config);
  CAPTURE(auc);
  CHECK(auc >= 0.90);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The manifest of the checkpoint that the file `name` of the model's folder names.
nlohmann::json ManifestOf(const std::string& model, const std::string& name) {
  std::string step;
  std::ifstream(model + "/" + name) >> step;
  return nlohmann::json::parse(ReadFile(absl::StrCat(model, "/", step, "/manifest.json")));
}

TEST_CASE("--refit trains on the rows of validation, too, for the best number of epochs") {
  const TemporaryFolder folder;
  Samples samples;
  const std::string data =
      folder.Write("clicks.csv", Rows("site,amount,clicked", 1'500, [&] {
                     const std::string site = absl::StrCat("s", samples.Pick(30));
                     const double amount = samples.Normal();
                     return absl::StrCat(site, ",", amount, ",",
                                         samples.Label(samples.Weight(site) + amount) ? 1 : 0);
                   }));
  REQUIRE(Simurgh("init " + data).exit_code == 0);
  const std::string config = folder.Path("clicks.yaml");
  const CommandResult trained = Simurgh("train " + config + " --refit");
  INFO(trained.out << trained.error);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.out, Catch::StartsWith("test_auc=0."));

  const std::string model = folder.Path("clicks-model");
  const auto rows = [&](const std::string& part) {
    const std::string text = ReadFile(folder.Path("clicks." + part + ".csv"));
    return std::ranges::count(text, '\n') - 1;
  };
  const auto trained_on = [](int epochs, int64_t rows) {
    return epochs * (rows / 32 * 32);  // In full batches.
  };
  const auto best = ManifestOf(model + "-trial", "best");
  const auto last = ManifestOf(model, "latest");
  int epochs = 0;
  REQUIRE(absl::SimpleAtoi(best["extra"]["train.epochs"].get<std::string>(), &epochs));
  CHECK(best["samples"] == trained_on(epochs, rows("train")));
  CHECK(last["samples"] == trained_on(epochs, rows("train") + rows("valid")));
  CHECK_FALSE(std::filesystem::exists(model + "/best"));

  // Both trainings are complete.
  const CommandResult again = Simurgh("train " + config + " --refit");
  CHECK_THAT(again.out, Contains("nothing was trained") &&
                            Contains(trained.out.substr(0, trained.out.find(" samples"))));
  const CommandResult without = Simurgh("train " + config);
  CHECK(without.exit_code == 2);
  CHECK_THAT(without.error, Contains("clicks-model: trained with --refit; use it"));

  // Without its model, the folder of the first training is no obstacle.
  std::filesystem::remove_all(model);
  REQUIRE(Simurgh("train " + config).exit_code == 0);
  const auto refused = [&](const std::string& options, const std::string& message) {
    const CommandResult run = Simurgh("train " + config + " --refit" + options);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.error, Contains(message));
  };
  refused("", "clicks-model: trained without --refit; remove it");
  refused(" --resume never", "--refit does not support --resume; remove ");
  refused(" --set training.evaluate_every_steps=5", "without training.evaluate_every_steps");
}

TEST_CASE("A label of many numbers: a regression") {
  const TemporaryFolder folder;
  Samples samples;
  const std::string data =
      folder.Write("prices.csv", Rows("shop,size,price", 3'000, [&] {
                     const std::string shop = absl::StrCat("shop", samples.Pick(20));
                     const double size = samples.Normal();
                     const double price = samples.Weight(shop) + size + 0.5 * samples.Normal();
                     return absl::StrCat(shop, ",", size, ",", price);
                   }));
  const CommandResult made = Simurgh("init --label price " + data);
  INFO(made.out << made.error);
  REQUIRE(made.exit_code == 0);
  CHECK_THAT(made.out, Contains("a regression") && Contains("prices.csv: 3000 rows\n"));
  const CommandResult trained = Simurgh("train " + folder.Path("prices.yaml"));
  INFO(trained.out << trained.error);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.out, Catch::StartsWith("loss=squared_error test_rmse="));
  double rmse = 0;
  REQUIRE(absl::SimpleAtod(trained.out.substr(29, trained.out.find(' ', 29) - 29), &rmse));
  CHECK(rmse < 0.75);  // The noise is 0.5.
}

TEST_CASE("A failure writes nothing") {
  const TemporaryFolder folder;
  const std::string data = folder.Write("a.csv", "a,price\nx,1\ny,2\nz,3\n");
  const CommandResult made = Simurgh("init " + data);
  CHECK(made.exit_code == 2);
  CHECK_THAT(made.error, Catch::StartsWith("simurgh: " + data + ": no label found"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK(Simurgh("init " + folder.Path("none.csv")).exit_code == 3);
  CHECK(Simurgh("init").exit_code == 2);
}

}  // namespace
}  // namespace simurgh::testing
