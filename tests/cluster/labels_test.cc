// Labels of numbers and weights of samples: training, evaluation, prediction.

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/cluster/trained_model.h"
#include "tests/support/temporary_folder.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Catch::StartsWith;

constexpr double kNoise = 0.5;  // Standard deviation of `number`, given the inputs.

struct Sample {
  std::string inputs;  // Cells of shop, item, x.
  double number = 0;   // Effects of the inputs and noise.
  double count = 0;    // Poisson, of a mean that follows from the inputs.
  double mean = 0;     // Of `count`.
  bool positive = false;
};

std::vector<Sample> Draw(uint64_t seed, size_t count) {
  Random effects(1);
  std::vector<double> of_shop(20);
  std::vector<double> of_item(30);
  for (double& effect : of_shop) effect = effects.Normal();
  for (double& effect : of_item) effect = effects.Normal();
  Random random(seed);
  std::vector<Sample> samples;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t shop = random.Below(of_shop.size());
    const uint64_t item = random.Below(of_item.size());
    const double x = random.Normal();
    const double effect = of_shop[shop] + of_item[item] + x;
    Sample sample{.inputs = absl::StrCat("s", shop, ",i", item, ",", x),
                  .number = 2 + effect + kNoise * random.Normal(),
                  .mean = std::exp(0.5 * effect)};
    double product = random.Uniform();
    for (; product > std::exp(-sample.mean); product *= random.Uniform()) ++sample.count;
    sample.positive = random.Uniform() < 1 / (1 + std::exp(-2 * effect));
    samples.push_back(sample);
  }
  return samples;
}

std::string TextOf(const std::vector<Sample>& samples) {
  std::string text = "shop,item,x,number,count,clicked\n";
  for (const Sample& sample : samples) {
    absl::StrAppend(&text, sample.inputs, ",", sample.number, ",", sample.count, ",",
                    sample.positive ? 1 : 0, "\n");
  }
  return text;
}

std::string KeyOf(const std::string& line, const std::string& key) {
  const size_t begin = line.find(key + "=");
  REQUIRE(begin != std::string::npos);
  const size_t value = begin + key.size() + 1;
  return line.substr(value, line.find_first_of(" \n", value) - value);
}

double NumberOf(const std::string& line, const std::string& key) {
  double number = 0;
  REQUIRE(absl::SimpleAtod(KeyOf(line, key), &number));
  return number;
}

// `simurgh train` in a folder, whose daemons listen there.
struct Run {
  // columns: those of labels and weights. sections: of the model and others.
  Run(const std::string& train, const std::string& test, const std::string& columns,
      const std::string& sections, size_t loaders = 0, size_t ranks = 1) {
    folder.Write("train.csv", train);
    folder.Write("test.csv", test);
    std::string text = absl::StrCat(R"(
data:
  train: [train.csv]
  validation: [test.csv]
  test: [test.csv]
  csv: {header: true}
  columns:
    - {name: shop, kind: id}
    - {name: item, kind: id}
    - {name: x, kind: dense}
)",
                                    columns, sections);
    absl::StrAppend(&text, "checkpoint: {directory: model}\nloaders: {instances: [");
    for (size_t i = 0; i < loaders; ++i) text += "{},";
    text += "]}\n";
    for (const char* section : {"embedding_ps", "embedding_worker", "nn_worker"}) {
      absl::StrAppend(&text, section, ": {instances: [");
      const size_t count = section == std::string("nn_worker") ? ranks : 1;
      for (size_t i = 0; i < count; ++i) {
        absl::StrAppend(&text, "{address: \"unix://", folder.path(), "/", section, i, "\"},");
      }
      text += "]}\n";
    }
    const CommandResult trained = Simurgh("train " + folder.Write("labels.yaml", text));
    INFO(trained.error);
    REQUIRE(trained.exit_code == 0);
    error = trained.error;
    result = trained.out.substr(0, trained.out.rfind(" samples_per_sec"));
    if (const size_t best = result.rfind(" best_step"); best != std::string::npos) {
      result.resize(best);
    }
  }

  std::string Predict(const std::string& options) const {
    const CommandResult predicted =
        Simurgh(absl::StrCat("predict --model ", folder.Path("model"), " --input ",
                             folder.Path("test.csv"), " ", options));
    INFO(predicted.error);
    REQUIRE(predicted.exit_code == 0);
    return predicted.out;
  }

  TemporaryFolder folder;
  std::string result;
  std::string error;
};

constexpr char kTraining[] = R"(
training:
  mode: sync
  batch_size: 50
  epochs: 6
  evaluate_every_steps: 100
  progress_interval: 10ms
  dense_optimizer: {kind: adam, learning_rate: 0.01}
)";

TEST_CASE("A number is learned up to its noise, and predicted as evaluated") {
  const std::vector<Sample> test = Draw(2, 1'000);
  const Run run(TextOf(Draw(1, 4'000)), TextOf(test), "    - {name: number, kind: label}\n",
                absl::StrCat("model: {deepfm: {}, loss: {kind: squared_error}}\n", kTraining));
  INFO(run.error);
  CHECK_THAT(run.result, StartsWith("loss=squared_error test_rmse=0.") &&
                             Contains(" test_calibration=") && Contains(" test_loss="));
  const double rmse = NumberOf(run.result, "test_rmse");
  CHECK(rmse < 1.15 * kNoise);
  CHECK(rmse > 0.9 * kNoise);
  CHECK_THAT(run.error, Contains(" rmse=") && Contains("validated: step="));
  CHECK(Lines(run.Predict("--evaluate")).back() == run.result);

  const std::vector<std::string> lines = Lines(run.Predict("--output -"));
  REQUIRE(lines.size() == test.size() + 1);
  CHECK(lines[0] == "p");
  double squares = 0;
  for (size_t i = 0; i < test.size(); ++i) {
    double prediction = 0;
    REQUIRE(absl::SimpleAtod(lines[i + 1], &prediction));
    squares += std::pow(prediction - test[i].number, 2);
  }
  CHECK(std::sqrt(squares / static_cast<double>(test.size())) == Approx(rmse).epsilon(1e-4));
  CHECK_THAT(run.Predict("--evaluate --json"),
             Contains("\"loss\":\"squared_error\",\"test_rmse\":0."));
}

TEST_CASE("A count and a binary label are learned together") {
  const std::vector<Sample> test = Draw(2, 1'000);
  const Run run(TextOf(Draw(1, 4'000)), TextOf(test),
                "    - {name: clicked, kind: label}\n    - {name: count, kind: label}\n",
                absl::StrCat("model:\n  towers: [{name: top, input: [dense, embeddings], layers: "
                             "[{linear: 32}, relu, {linear: 2}]}]\n"
                             "  tasks: [{label: count, loss: {kind: poisson}}]\n",
                             kTraining));
  INFO(run.error);
  const std::vector<std::string> lines = absl::StrSplit(run.result, '\n');
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[0], StartsWith("label=clicked test_auc=0.8") || StartsWith("label=clicked "
                                                                              "test_auc=0.9"));
  CHECK_THAT(lines[1], StartsWith("label=count loss=poisson test_rmse="));
  // The loss of the means that the counts were drawn from.
  double best = 0;
  for (const Sample& sample : test) best += sample.mean - sample.count * std::log(sample.mean);
  best /= static_cast<double>(test.size());
  CAPTURE(best);
  CHECK(NumberOf(lines[1], "test_loss") < best + 0.1);
  CHECK(std::abs(NumberOf(lines[1], "test_calibration") - 1) < 0.1);
  const std::vector<std::string> predictions = Lines(run.Predict("--output -"));
  CHECK(predictions[0] == "p_clicked,p_count");
  for (size_t i = 1; i < predictions.size(); ++i) {
    const std::vector<std::string> cells = absl::StrSplit(predictions[i], ',');
    CHECK(cells[1][0] != '-');
  }
}

// Adds a column of weights.
std::string Weighted(const std::string& text, const std::vector<std::string>& weights) {
  std::string weighted;
  const std::vector<std::string> lines = Lines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppend(&weighted, lines[i], ",", i == 0 ? "w" : weights[(i - 1) % weights.size()],
                    "\n");
  }
  return weighted;
}

constexpr char kClicked[] = "    - {name: clicked, kind: label}\n";
constexpr char kWeight[] = "    - {name: w, kind: weight}\n";

TEST_CASE("Weights of 1 change no bit, also through loaders and with several ranks") {
  const std::string train = TextOf(Draw(1, 1'000));
  const std::string test = TextOf(Draw(2, 500));
  const std::string sections = absl::StrCat("model: deepfm\n", kTraining);
  const auto digest = [](const Run& run) { return KeyOf(run.error, "network_digest"); };
  const Run plain(train, test, kClicked, sections);
  const std::string columns = absl::StrCat(kClicked, kWeight);
  const Run weighted(Weighted(train, {"1"}), Weighted(test, {"1"}), columns, sections);
  CHECK(weighted.result == plain.result);
  CHECK(digest(weighted) == digest(plain));
  const std::string mixed = Weighted(train, {"0.5", "2", "1"});
  const Run alone(mixed, Weighted(test, {"1", "3"}), columns, sections);
  CHECK(digest(alone) != digest(plain));
  const Run fed(mixed, Weighted(test, {"1", "3"}), columns, sections, /*loaders=*/2);
  CHECK(fed.result == alone.result);
  CHECK(digest(fed) == digest(alone));
  const Run ranks(mixed, Weighted(test, {"1", "3"}), columns, sections, /*loaders=*/0, /*ranks=*/2);
  for (const Run* run : {&alone, &ranks}) {
    CHECK(Lines(run->Predict("--evaluate")).back() == run->result);
  }
  // Predictions need no weights.
  alone.folder.Write("test.csv", test);
  CHECK(Lines(alone.Predict("--output -")).size() == 501);
}

// The AUC within shops by pairs, weighted by samples, of predictions in order.
double AucByShops(const std::vector<Sample>& samples, const std::vector<std::string>& predictions) {
  std::map<std::string, std::vector<std::pair<double, bool>>> shops;
  for (size_t i = 0; i < samples.size(); ++i) {
    double p = 0;
    REQUIRE(absl::SimpleAtod(predictions[i], &p));
    shops[samples[i].inputs.substr(0, samples[i].inputs.find(','))].emplace_back(
        p, samples[i].positive);
  }
  double sum = 0;
  double count = 0;
  for (const auto& [shop, members] : shops) {
    double wins = 0;
    double pairs = 0;
    for (const auto& [p, positive] : members) {
      for (const auto& [q, other] : members) {
        if (!positive || other) continue;
        ++pairs;
        wins += p > q ? 1 : p == q ? 0.5 : 0;
      }
    }
    if (pairs == 0) continue;
    sum += wins / pairs * static_cast<double>(members.size());
    count += static_cast<double>(members.size());
  }
  return sum / count;
}

TEST_CASE("A column that the model does not read groups the samples for their AUC") {
  const std::vector<Sample> test = Draw(2, 600);
  const auto with_group = [](const std::vector<Sample>& samples) {
    std::vector<std::string> shops;
    for (const Sample& sample : samples) {
      shops.push_back("\"of " + sample.inputs.substr(0, sample.inputs.find(',')) + "\"");
    }
    return Weighted(TextOf(samples), shops);
  };
  const std::string columns = absl::StrCat(kClicked, "    - {name: w, kind: group}\n");
  const std::string sections = absl::StrCat("model: deepfm\n", kTraining,
                                            "  early_stopping: {patience: 9, metric: group_auc}\n");
  const Run alone(with_group(Draw(1, 1'000)), with_group(test), columns, sections);
  std::vector<std::string> predictions = Lines(alone.Predict("--output -"));
  predictions.erase(predictions.begin());
  const double wanted = AucByShops(test, predictions);
  CHECK(NumberOf(alone.result, "test_group_auc") == Approx(wanted).margin(1e-4));
  CHECK(std::abs(wanted - NumberOf(alone.result, "test_auc")) > 0.001);
  const Run ranks(with_group(Draw(1, 1'000)), with_group(test), columns, sections, /*loaders=*/1,
                  /*ranks=*/2);
  CHECK(Lines(ranks.Predict("--evaluate")).back() == ranks.result);
}

TEST_CASE("Samples of weight 0 teach nothing and do not count") {
  std::vector<Sample> train = Draw(1, 3'000);
  std::vector<Sample> test = Draw(2, 900);
  // Two of three labels are wrong.
  for (std::vector<Sample>* samples : {&train, &test}) {
    for (size_t i = 0; i < samples->size(); ++i) {
      if (i % 3 != 0) (*samples)[i].positive = !(*samples)[i].positive;
    }
  }
  const std::string sections = absl::StrCat("model: deepfm\n", kTraining);
  const std::vector<std::string> weights = {"2", "0", "0"};
  const Run run(Weighted(TextOf(train), weights), Weighted(TextOf(test), weights),
                absl::StrCat(kClicked, kWeight), sections);
  CHECK(NumberOf(run.result, "test_auc") > 0.85);
  const Run misled(TextOf(train), TextOf(test), kClicked, sections);
  CHECK(NumberOf(misled.result, "test_auc") < 0.75);
}

}  // namespace
}  // namespace simurgh::testing
