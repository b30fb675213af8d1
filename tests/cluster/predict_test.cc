// `simurgh predict` with models that trainers have left.

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "model/model_directory.h"
#include "predict/predictor.h"
#include "predict/scorer.h"
#include "tests/cluster/trained_model.h"
#include "tests/support/python.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"
#include "tests/unit/model/model_files.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

CommandResult Predict(const std::string& arguments) { return Simurgh("predict " + arguments); }

// The cells of a line without quotes, without labels.
std::vector<std::string> CellsOf(const std::string& line, const DataConfig& data) {
  const char separator = data.format == DataConfig::Format::kCsv ? data.csv.separator : '\t';
  const std::vector<std::string> all = absl::StrSplit(line, separator);
  const std::vector<ColumnConfig> columns = ColumnsOf(data);
  REQUIRE(all.size() == columns.size());
  std::vector<std::string> cells;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (IsTarget(columns[i].kind)) continue;
    cells.emplace_back(absl::StripAsciiWhitespace(all[i]));
  }
  return cells;
}

// Of numbers beyond 1, a share.
double DifferenceOf(double found, double wanted) {
  return std::abs(found - wanted) / std::max(1.0, std::abs(wanted));
}

// Sends the rows of the test file to a scorer, in requests of several sizes at once. found: the
// predictions of all rows, label after label.
void CheckRequests(const Trained& trained, const std::vector<std::vector<double>>& found) {
  MetricRegistry registry;
  const auto no_progress = [](uint64_t, uint64_t) { return absl::OkStatus(); };
  const auto model =
      ModelVersion::Load(trained.checkpoint, {.allow_plugins = true}, no_progress).value();
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : Lines(trained.Rows(5'000))) {
    rows.push_back(CellsOf(line, model->config().data));
  }
  if (model->config().data.csv.header) rows.erase(rows.begin());
  Scorer scorer({.threads = 2, .max_batch_rows = 100}, registry);
  std::vector<std::future<void>> answers;
  size_t first = 0;
  for (const size_t size : {size_t{1}, size_t{7}, size_t{64}, size_t{1}, size_t{4'096}, size_t{7},
                            size_t{64}, size_t{300}}) {
    ScoreRequest request{.rows = size};
    for (size_t column = 0; column < model->format().columns.size(); ++column) {
      std::vector<Cell>& cells = request.columns.emplace_back();
      for (size_t row = first; row < first + size; ++row) {
        cells.push_back({.kind = Cell::Kind::kText, .text = rows[row % rows.size()][column]});
      }
    }
    auto done = std::make_shared<std::promise<void>>();
    answers.push_back(done->get_future());
    scorer.Submit(model, std::move(request), std::chrono::minutes(1),
                  [&found, &rows, done, first, size](StatusOr<ScoredRows> scored) {
                    REQUIRE(scored.ok());
                    REQUIRE(scored->bad_rows == 0);
                    const size_t labels = scored->probabilities.size() / size;
                    double worst = 0;
                    for (size_t i = 0; i < scored->probabilities.size(); ++i) {
                      const double wanted =
                          found.at((first + i / labels) % rows.size()).at(i % labels);
                      worst = std::max(worst, DifferenceOf(scored->probabilities[i], wanted));
                    }
                    CHECK(worst <= 1e-6);
                    done->set_value();
                  });
    first += size;
  }
  for (std::future<void>& answer : answers) answer.get();

  // One row's cells for all rows, given once or for each row.
  ScoreRequest repeated{.rows = 20};
  for (size_t column = 0; column < model->format().columns.size(); ++column) {
    const bool is_shared = column % 3 != 0;
    std::vector<Cell>& cells = repeated.columns.emplace_back();
    for (size_t row = 0; row < (is_shared ? 1 : repeated.rows); ++row) {
      cells.push_back({.kind = Cell::Kind::kText, .text = rows[is_shared ? 0 : row % 2][column]});
    }
  }
  ScoreRequest whole = repeated;
  for (std::vector<Cell>& cells : whole.columns) cells.resize(whole.rows, cells[0]);
  Predictor predictor = Predictor::Create(*model).value();
  const std::vector<const ScoreRequest*> requests = {&repeated, &whole};
  std::vector<ScoredRows> scored(2);
  REQUIRE(predictor.Score(*model, requests, scored) == absl::OkStatus());
  for (size_t i = 0; i < scored[0].probabilities.size(); ++i) {
    CHECK(DifferenceOf(scored[0].probabilities[i], scored[1].probabilities[i]) <= 1e-6);
  }
}

struct Model {
  std::string config;
  std::vector<std::string> overrides = {};
};

// All committed ones, and more precisions.
std::vector<Model> Models() {
  std::vector<Model> models = {
      {"config/adult.yaml", {"training.embedding_precision=int8", "training.keep_negatives=0.5"}},
      {"config/adult-persia.yaml",
       {"training.embedding_precision=f16", "training.embeddings=rows"}},
      {"config/adult.yaml",
       {"embedding_worker.row_precision=bf16", "training.dense_optimizer.average_decay=0.9"}},
      {"config/adult-dcn-v2.yaml",
       {"embedding_worker.row_precision=f16", "tables.0.precision=bf16"}},
      {"config/adult-regression.yaml",
       {"data.columns.2={name: fnlwgt, kind: weight}", "model.tasks.0.loss={kind: poisson}"}},
  };
  for (const auto& entry : std::filesystem::directory_iterator("config")) {
    // These have no test data.
    const std::string name = entry.path().filename();
    const bool is_tested = name != "kafka.yaml" && name != "two-tower.yaml";
    if (entry.path().extension() == ".yaml" && is_tested) models.push_back({entry.path().string()});
  }
  return models;
}

TEST_CASE("Predictions of all committed models are the trainer's") {
  const Model model = GENERATE(from_range(Models()));
  const std::string& config = model.config;
  CAPTURE(config, model.overrides);
  const TemporaryFolder data;
  std::vector<std::string> overrides = model.overrides;
  size_t rows = 16'281;
  static const std::map<std::string, std::string> kTeachers = {
      // Of data that are not committed.
      {"config/criteo-synthetic.yaml", "clicks"},
      {"config/experts.yaml", "experts"},
      {"config/mmoe.yaml", "experts"},
      {"config/ple.yaml", "experts"},
      {"config/sequence.yaml", "sequence"},
      {"config/din.yaml", "sequence"},
      {"config/bst.yaml", "sequence"},
      {"config/esmm.yaml", "purchases"}};
  if (const auto found = kTeachers.find(config); found != kTeachers.end()) {
    const std::string teacher = "--teacher " + found->second;
    overrides = {"data.train=[" + Generate(data, "train", teacher) + "]",
                 "data.test=[" + Generate(data, "test", teacher + " --first 4000") + "]",
                 "training.batch_size=64"};
    rows = 4'000;
  } else if (config == "config/adult-plugin.yaml") {
    overrides = {absl::StrCat("features.8.plugin.path=", SOFT_BINS_PLUGIN),
                 absl::StrCat("data.derived.0.plugin.path=", SOFT_BINS_PLUGIN)};
  }
  const Trained trained(config, overrides);
  const std::string output = trained.folder.Path("out.csv");
  const CommandResult result = Predict(
      absl::StrCat("--model ", trained.model, " --input ", trained.test, " --output ", output,
                   " --evaluate", config == "config/adult-plugin.yaml" ? " --allow-plugins" : ""));
  CAPTURE(result.error);
  REQUIRE(result.exit_code == 0);
  // The trainer appends its speed.
  CHECK_THAT(trained.outcome.last_line, StartsWith(absl::StrCat(Lines(result.out).back(), " ")));
  CHECK_THAT(result.error, Contains("bad_rows=0 "));

  const std::vector<std::string> found = Lines(ReadText(output));
  const std::vector<std::string> probe = Lines(ReadText(trained.checkpoint.Path("probe.csv")));
  REQUIRE(probe.size() == 65);
  REQUIRE(found.size() == 1 + rows);
  std::vector<std::vector<double>> predictions;
  for (size_t i = 1; i < found.size(); ++i) {
    std::vector<double>& row = predictions.emplace_back();
    for (const absl::string_view cell : absl::StrSplit(found[i], ',')) {
      REQUIRE(absl::SimpleAtod(cell, &row.emplace_back()));
    }
  }
  CheckRequests(trained, predictions);
  CHECK(probe[0] == found[0] + ",row");
  for (size_t i = 1; i < probe.size(); ++i) {
    const std::vector<std::string> wanted = absl::StrSplit(probe[i], ',');
    for (size_t task = 0; task < predictions[i - 1].size(); ++task) {
      double p = 1;
      REQUIRE(absl::SimpleAtod(wanted[task], &p));
      CHECK(DifferenceOf(predictions[i - 1][task], p) <= 1e-6);
    }
  }
}

TEST_CASE("The committed model of two towers trains, and predicts scores") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  const std::string train = Generate(folder, "train", "--teacher purchases");
  const TrainerOutcome outcome =
      RunStandalone({.config = "config/two-tower.yaml",
                     .overrides = {"data.train=[" + train + "]", "checkpoint.directory=" + model}});
  REQUIRE(outcome.exit_code == 0);
  const std::string output = folder.Path("out.csv");
  const CommandResult result =
      Predict(absl::StrCat("--model ", model, " --input ", train, " --output ", output));
  CAPTURE(result.error);
  REQUIRE(result.exit_code == 0);
  const std::vector<std::string> lines = Lines(ReadText(output));
  REQUIRE(lines.size() == 4'001);
  CHECK(lines[0] == "p");
  double least = 0;
  double most = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    double score = NAN;
    REQUIRE(absl::SimpleAtod(lines[i], &score));
    least = std::min(least, score);
    most = std::max(most, score);
  }
  // A row alone has no metrics, and rankings need items.
  const auto refused = [&](const std::string& what) {
    const CommandResult run =
        Predict(absl::StrCat("--model ", model, " --input ", train, " ", what));
    CHECK(run.exit_code == 2);
    return run.error;
  };
  CHECK_THAT(refused("--evaluate"), Contains("data.items: missing"));
  CHECK_THAT(refused("--evaluate --output out.csv"), Contains("give --output by itself"));
  CHECK_THAT(refused("--importance"), Contains("its predictions rank items"));
  // Cosines over the temperature, 0.05.
  CHECK(least < -1);
  CHECK(least >= -20.001);
  CHECK(most > 1);
  CHECK(most <= 20.001);
}

TEST_CASE("The safetensors package opens every file of a model") {
  const std::string python = Python("safetensors.numpy");
  const Trained trained("config/adult-features.yaml");
  const CommandResult result = RunCommand(
      absl::StrCat(python,
                   " -c 'import pathlib, sys; from safetensors.numpy import load_file\n"
                   "for path in sorted(pathlib.Path(sys.argv[1]).rglob(\"*.safetensors\")):"
                   " print(len(load_file(path)))' ",
                   trained.checkpoint.folder));
  CAPTURE(result.error);
  CHECK(result.exit_code == 0);
  const auto is_tensors = [](const ModelFile& file) { return file.path.ends_with(".safetensors"); };
  CHECK(std::ranges::count_if(trained.checkpoint.manifest.files, is_tensors) ==
        static_cast<std::ptrdiff_t>(Lines(result.out).size()));
}

TEST_CASE("A model with plug-ins needs them where it predicts") {
  const std::string plugin = SOFT_BINS_PLUGIN;
  const Trained trained("config/adult-plugin.yaml", {"features.8.plugin.path=" + plugin,
                                                     "data.derived.0.plugin.path=" + plugin});
  const std::string untrusted =
      absl::StrCat("--model ", trained.model, " --evaluate --input ", trained.test);
  const CommandResult refused = Predict(untrusted);
  CHECK(refused.exit_code == 2);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.error, Contains("the model runs the program code of " + plugin +
                                     "; if you trust it, give --allow-plugins"));
  const std::string arguments = untrusted + " --allow-plugins";
  const CommandResult result = Predict(arguments);
  CAPTURE(result.error);
  CHECK(result.exit_code == 0);
  CHECK_THAT(trained.outcome.last_line, StartsWith(absl::StrCat(Lines(result.out).back(), " ")));
  const CommandResult missing = Predict(arguments + " --set features.8.plugin.path=/nowhere.so");
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.error,
             Contains("features.8.plugin.path: cannot read '/nowhere.so': No such file"));
}

TEST_CASE("A model of two ranks, servers and workers predicts as its cluster did") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  const std::string config = "config/adult-persia.yaml";
  TestCluster cluster({.config = config,
                       .workers = 2,
                       .ranks = 2,
                       .overrides = {"checkpoint.directory=" + model, "training.max_steps=60"}});
  const auto trainers = cluster.StartTrainers(2, {"training.mode=sync"});
  REQUIRE(Finish(*trainers[1]).exit_code == 0);
  const TrainerOutcome outcome = Finish(*trainers[0]);
  REQUIRE(outcome.exit_code == 0);
  const std::string test = LoadClusterConfig(config, {}).value().data.test.at(0);
  for (const char* threads : {"1", "5"}) {
    const CommandResult result = Predict(
        absl::StrCat("--model ", model, " --input ", test, " --evaluate --threads ", threads));
    CAPTURE(result.error);
    CHECK(result.exit_code == 0);
    CHECK_THAT(outcome.last_line, StartsWith(Lines(result.out).back()));
  }
}

TEST_CASE("Predictions equal a forward pass in numpy over the files") {
  if (RunCommand("/usr/bin/python3 -c 'import numpy'").exit_code != 0) SIMURGH_SKIP("no numpy");
  const TemporaryFolder folder;
  const Trained trained(PlainConfig(folder));
  const CommandResult reference =
      RunCommand(absl::StrCat("/usr/bin/python3 tests/cluster/predict_reference.py ",
                              trained.checkpoint.folder, " ", trained.test, " C1 C2 C3 C20"));
  CAPTURE(reference.error);
  REQUIRE(reference.exit_code == 0);
  const std::vector<std::string> wanted = Lines(reference.out);
  const CommandResult result =
      Predict(absl::StrCat("--model ", trained.model, " --output - --input ", trained.test));
  CAPTURE(result.error);
  const std::vector<std::string> found = Lines(result.out);
  REQUIRE(found.size() == 4'001);
  REQUIRE(wanted.size() == 4'000);
  CHECK(WorstDifference({found.begin() + 1, found.end()}, wanted) <= 1e-6);

  // Lines without the label, compressed, from a pipe.
  const CommandResult unlabeled =
      RunCommand(absl::StrCat("cut -f2- ", trained.test, " | gzip | ", Program("simurgh"),
                              " predict --model ", trained.model, " --input - --output -"));
  CHECK(unlabeled.out == result.out);
}

TEST_CASE("The output has a line for each row, with the columns asked for") {
  const Trained trained("config/adult.yaml");
  std::vector<std::string> rows = Lines(trained.Rows(3));
  const std::string other_class = absl::StrReplaceAll(rows[0], {{"Private", "\" a,\"\"b\"\"\""}});
  const std::string no_label = rows[1].substr(0, rows[1].rfind(','));
  const std::string input = trained.folder.Write(
      "input.csv", absl::StrCat(rows[0], "\n", "not a row\n", rows[1], "\r\n\n", other_class, "\n",
                                no_label, "\n", rows[2], "?\nx"));
  const CommandResult result = Predict(absl::StrCat(
      "--model ", trained.model, " --output - --input - --columns workclass,age,income < ", input));
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.error, Contains("/dev/stdin:2: 1 cell, but the configuration names 15") &&
                               EndsWith("\n") && Contains("rows=7 bad_rows=2 "));
  const std::vector<std::string> lines = Lines(result.out);
  REQUIRE(lines.size() == 8);
  const std::string label = rows[0].substr(rows[0].rfind(',') + 1);
  CHECK(lines[0] == "workclass,age,income,p");
  CHECK_THAT(lines[1], StartsWith(absl::StrCat("Private,25,", label, ",0.")));
  CHECK(lines[2] == ",,,");
  CHECK_THAT(lines[3], StartsWith("Private,38,"));
  CHECK_THAT(lines[4], StartsWith(absl::StrCat("\" a,\"\"b\"\"\",25,", label, ",0.")));
  CHECK_THAT(lines[5], StartsWith("Private,38,,0."));  // Without its label.
  CHECK(lines[5].substr(lines[5].rfind(',')) == lines[3].substr(lines[3].rfind(',')));
  CHECK_THAT(lines[6], Contains("?,0."));  // A label that is none does not matter.
  CHECK(lines[7] == ",,,");

  CHECK_THAT(Predict(absl::StrCat("--evaluate --model ", trained.model, " --input ", input)).error,
             Contains("bad_rows=3 "));
}

TEST_CASE("A copied model predicts elsewhere") {
  const TemporaryFolder folder;
  const std::string config = PlainConfig(folder);
  const Trained trained(config);
  const std::string moved = folder.Path("it's here");
  std::filesystem::copy(trained.model, moved, std::filesystem::copy_options::recursive);
  std::filesystem::rename(trained.test, folder.Path("rows.tsv"));
  for (const char* name : {"plain.yaml", "train.tsv"}) std::filesystem::remove(folder.Path(name));
  std::filesystem::remove_all(trained.model);
  const CommandResult result = RunCommand(absl::StrCat(
      "cd ", folder.path(), " && ", std::filesystem::absolute(Program("simurgh")).string(),
      " predict --model \"it's here\" --input rows.tsv --evaluate"));
  CAPTURE(result.error);
  CHECK(result.exit_code == 0);
  CHECK_THAT(trained.outcome.last_line, StartsWith(Lines(result.out).back()));
}

TEST_CASE("An output appears when it is complete") {
  const Trained trained("config/adult.yaml");
  const std::string output = trained.folder.Path("out.csv");
  const std::string common = absl::StrCat("--model ", trained.model, " --output ", output);
  SECTION("a damaged input") {
    const std::string input = trained.folder.Path("cut.zst");
    std::filesystem::copy(trained.test, input);
    std::filesystem::resize_file(input, std::filesystem::file_size(input) / 2);
    const CommandResult result = Predict(absl::StrCat(common, " --input ", input));
    CHECK(result.exit_code == 3);
    CHECK_THAT(result.error, Contains(input));
    CHECK(!std::filesystem::exists(output));
    CHECK(std::distance(std::filesystem::directory_iterator(trained.folder.path()), {}) == 2);
  }
  SECTION("a process that is killed") {
    const std::string pipe = trained.folder.Path("pipe");
    REQUIRE(RunCommand("mkfifo " + pipe).exit_code == 0);
    DaemonProcess process(
        "simurgh", {"predict", "--model", trained.model, "--output", output, "--input", pipe},
        trained.folder.Path("log"));
    std::ofstream(pipe) << trained.Rows(1000) << std::flush;  // Waits for the reader to open it.
    process.Signal(SIGKILL);
    process.Wait(std::chrono::seconds(60));
    // The process may have finished first; then the output is whole.
    CHECK((!std::filesystem::exists(output) || Lines(ReadText(output)).size() == 1001));
  }
  SECTION("a process that is interrupted") {
    const std::string pipe = trained.folder.Path("pipe");
    REQUIRE(RunCommand("mkfifo " + pipe).exit_code == 0);
    DaemonProcess process(
        "simurgh", {"predict", "--model", trained.model, "--output", output, "--input", pipe},
        trained.folder.Path("log"));
    std::ofstream rows(pipe);  // Waits for the reader to open it.
    rows << trained.Rows(1000) << std::flush;
    process.Signal(SIGINT);
    process.Wait(std::chrono::seconds(60));
    for (const auto& entry : std::filesystem::directory_iterator(trained.folder.path())) {
      INFO(entry.path());
      CHECK(entry.path().filename().string().find("out.csv") == std::string::npos);
    }
  }
  SECTION("a file that exists is replaced") {
    std::ofstream(output) << "old";
    REQUIRE(Predict(absl::StrCat(common, " --input ", trained.test)).exit_code == 0);
    CHECK(Lines(ReadText(output)).size() == 16'282);
  }
}

TEST_CASE("The end of the reader ends a prediction quietly") {
  const Trained trained("config/adult.yaml");
  const std::string row = trained.folder.Write("row", trained.Rows(1));
  const CommandResult result = RunCommand(
      absl::StrCat("yes \"$(cat ", row, ")\" | { ", Program("simurgh"), " predict --model ",
                   trained.model, " --input - --output -; echo exit $? >&2; } | head -1"));
  CHECK(result.out == "p\n");
  CHECK(result.error == "exit 3\n");
}

TEST_CASE("A damaged or different model is refused") {
  const Trained trained("config/adult.yaml");
  const auto predict = [&](const std::string& more) {
    return Predict(
        absl::StrCat("--model ", trained.model, " --evaluate --input ", trained.test, more));
  };
  const auto change = [&](const std::string& name, std::streamoff from_end) {
    std::fstream file(trained.checkpoint.Path(name), std::ios::in | std::ios::out);
    file.seekg(-from_end, std::ios::end);
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-from_end, std::ios::end);
    file.put(byte);
    REQUIRE(file.good());
  };
  SECTION("a row") {
    const std::string rows = "rows/age_id/0.safetensors";
    const auto bytes =
        static_cast<std::streamoff>(std::filesystem::file_size(trained.checkpoint.Path(rows)));
    change(rows, bytes / 2);
    const CommandResult result = predict("");
    CHECK(result.exit_code == 3);
    CHECK_THAT(result.error, Contains("rows/age_id/0.safetensors: tensor weights, rows 0 to "));
  }
  SECTION("a weight") {
    change("dense.safetensors", 1);
    const CommandResult result = predict("");
    CHECK(result.exit_code == 3);
    CHECK_THAT(result.error, Contains("dense.safetensors: tensor "));
  }
  SECTION("the probe") {
    change("probe.csv", 5);
    const CommandResult result = predict("");
    CHECK(result.exit_code == 3);
    CHECK_THAT(result.error,
               Contains("probe.csv: the file has ") && Contains("; the manifest has "));
  }
  SECTION("another processing than the training's") {
    const CommandResult result = predict(" --set data.columns.0.mean=39");
    CHECK(result.exit_code == 3);
    CHECK_THAT(result.error, Contains("probe.csv: row 1: the trainer predicted 0.") &&
                                 Contains(" for this row, this program predicts 0."));
  }
  SECTION("another table") {
    const CommandResult result = predict(" --set tables.0.precision=bf16");
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.error,
               Contains("tensor weights is F32 [N, 8], the model's configuration of table"));
  }
}

TEST_CASE("Bad arguments of predict exit with 2, missing files with 3") {
  struct Bad {
    std::string arguments;
    int exit_code;
    std::string message;
  };
  const Bad bad = GENERATE(values<Bad>({
      {"", 2, "--model is missing"},
      {"--model m", 2, "--input is missing"},
      {"--model m --input i", 2, "--output is missing; name a file, or use --evaluate"},
      {"--model m --input i --output o --step x", 2, "--step: 'x' is not a number"},
      {"--model m --input i --output o more", 2, "unexpected argument 'more'"},
      {"--model m --input i --output o --threads -1", 2, "--threads: -1 is out of range; use 1 to"},
      {"--model nowhere --input i --output o", 3, "cannot list folder nowhere"},
  }));
  CAPTURE(bad.arguments);
  const CommandResult result = Predict(bad.arguments);
  CHECK(result.exit_code == bad.exit_code);
  CHECK_THAT(result.error, StartsWith("simurgh: ") && Contains(bad.message));

  const Trained trained("config/adult.yaml");
  const std::string common = absl::StrCat("--model ", trained.model, " --output ");
  const std::string output = trained.folder.Path("o");
  const CommandResult column =
      Predict(absl::StrCat(common, output, " --columns age,sex --input ", trained.test));
  CHECK(column.exit_code == 2);
  CHECK_THAT(column.error, Contains("--columns: no column is named 'sex'; use some of age, "));
  CHECK(Predict(absl::StrCat(common, output, " --input nowhere")).exit_code == 3);
  const CommandResult folder =
      Predict(absl::StrCat(common, trained.folder.path(), " --input ", trained.test));
  CHECK(folder.exit_code == 3);
  CHECK_THAT(folder.error, Contains("--output " + trained.folder.path()));
  CHECK(Predict(absl::StrCat(common, "/dev/full --input ", trained.test)).exit_code == 3);
  CHECK_THAT(Predict("--help").out,
             Contains("simurgh predict --model MODEL") && Contains("Examples:"));
}

}  // namespace
}  // namespace simurgh::testing
