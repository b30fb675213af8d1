// `simurgh export` of models that trainers have left, read by other programs.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "tests/cluster/trained_model.h"
#include "tests/support/python.h"
#include "tests/unit/model/model_files.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;

CommandResult Export(const std::string& arguments) {
  CommandResult result = Simurgh("export " + arguments);
  INFO(result.error);
  REQUIRE(result.exit_code == 0);
  return result;
}

// Lines of `simurgh predict` without the header.
std::vector<std::string> Predictions(const std::string& model, const std::string& input) {
  const CommandResult result = Simurgh(
      absl::StrCat("predict --allow-plugins --model ", model, " --output - --input ", input));
  INFO(result.error);
  REQUIRE(result.exit_code == 0);
  std::vector<std::string> lines = Lines(result.out);
  lines.erase(lines.begin());
  return lines;
}

TEST_CASE("Exported features are the numbers of the rows") {
  const std::string python = Python("numpy, safetensors.numpy");
  const TemporaryFolder folder;
  const Trained trained(PlainConfig(folder));
  const std::string to = absl::StrCat("features --model ", trained.model, " --output ");
  const std::string tensors = folder.Path("f.safetensors");
  const std::string arrays = folder.Path("f.npz");
  CHECK_THAT(Export(absl::StrCat(to, tensors, " --input ", trained.test)).error,
             Contains("rows=4000 bad_rows=0 "));
  Export(absl::StrCat(to, arrays, " --input - < ", trained.test));
  const CommandResult same =
      RunCommand(absl::StrCat(python, " tests/cluster/features_reference.py ", trained.test, " ",
                              tensors, " ", arrays, " C1 C2 C3 C20"));
  INFO(same.error);
  CHECK(same.out == "4000\n");

  const auto print = [&](const std::string& what) {
    return RunCommand(absl::StrCat(python, " -c 'from safetensors.numpy import load_file; t = ",
                                   "load_file(\"", tensors, "\"); print(", what, ")'"))
        .out;
  };
  const std::string rows = folder.Write("rows.tsv", "x\n" + trained.Rows(2) + "1\n");
  CHECK_THAT(Export(absl::StrCat(to, tensors, " --input ", rows)).error,
             Contains("rows.tsv:1: ") && Contains("rows=2 bad_rows=2 "));
  CHECK(print("t[\"labels\"].shape, t[\"dense\"].shape") == "(2, 1) (2, 13)\n");
  const std::string empty = folder.Write("empty.tsv", "");
  Export(absl::StrCat(to, tensors, " --input ", empty));
  CHECK(print("t[\"labels\"].shape, t[\"C1.ids\"].shape, t[\"C1.offsets\"]") ==
        "(0, 1) (0,) [0]\n");
  const std::string unlabeled = folder.Path("unlabeled.tsv");
  REQUIRE(RunCommand(absl::StrCat("cut -f2- ", trained.test, " > ", unlabeled)).exit_code == 0);
  Export(absl::StrCat(to, tensors, " --unlabeled --input ", unlabeled));
  CHECK(print("\"labels\" in t, t[\"dense\"].shape") == "False (4000, 13)\n");
  const TemporaryFolder target;
  REQUIRE(std::filesystem::create_directory(target.Path("t.npz")));
  CHECK(Simurgh(absl::StrCat("export ", to, target.Path("t.npz"), " --input ", empty)).exit_code ==
        3);
  CHECK(std::distance(std::filesystem::directory_iterator(target.path()), {}) == 1);
}

TEST_CASE("PyTorch and onnxruntime predict exported models as the trainer does") {
  struct Model {
    std::string config;
    std::vector<std::string> overrides;
  };
  const std::string plugin = SOFT_BINS_PLUGIN;
  const Model model = GENERATE_COPY(values<Model>({
      {"adult", {"training.dense_optimizer.average_decay=0.9"}},
      {"adult-features", {}},
      {"adult-persia", {"training.keep_negatives=0.3", "training.calibration=0.6 1.4 -0.4"}},
      {"adult-plugin",
       {"features.8.plugin.path=" + plugin, "data.derived.0.plugin.path=" + plugin,
        "features.8.pooling=weighted_sum"}},
      {"adult-tasks", {"training.calibration=0.7 0.2, 1.6 0.4 -0.3"}},
      {"adult-regression", {"model.tasks.1.loss={kind: focal}"}},
      {"adult-dcn-v2", {"tables.0.precision=bf16"}},
      {"adult-deepfm", {"tables.0.precision=f16"}},
      {"adult-dlrm", {"checkpoint.at_steps=[20,40]", "checkpoint.full_every=9"}},
      {"adult-wide-deep", {}},
      {"", {"training.dense_optimizer.average_decay=0.9"}},
  }));
  CAPTURE(model.config);
  const std::string python = Python("numpy, onnxruntime, safetensors.numpy, torch");
  const TemporaryFolder folder;
  const Trained trained(
      model.config.empty() ? PoolingConfig(folder) : "config/" + model.config + ".yaml",
      model.overrides);
  const std::string features = trained.folder.Path("f.safetensors");
  const std::string onnx = trained.folder.Path("dense.onnx");
  Export(absl::StrCat("features --allow-plugins --model ", trained.model, " --input ", trained.test,
                      " --output ", features));
  Export(absl::StrCat("onnx --model ", trained.model, " --output ", onnx));
  const CommandResult found = RunCommand(absl::StrCat(
      python, " tests/cluster/exported_predictions.py ", trained.model, " ", features, " ", onnx));
  INFO(found.error);
  REQUIRE(found.exit_code == 0);
  std::vector<std::string> wanted = Predictions(trained.model, trained.test);
  REQUIRE(wanted.size() >= 600);
  for (std::string& line : wanted) line += "," + std::string(line);  // Both programs'.
  CHECK(WorstDifference(Lines(found.out), wanted) <= 1e-6);
}

TEST_CASE("PyTorch refuses a delta whose parent is another checkpoint") {
  const std::string python = Python("safetensors.numpy, torch");
  const Trained trained("config/adult-dlrm.yaml",
                        {"checkpoint.at_steps=[20,40]", "checkpoint.full_every=9"});
  const bool has_hash = std::system((python + " -c 'import xxhash' 2> /dev/null").c_str()) == 0;
  const auto load = [&](const std::string& without) {
    return RunCommand(absl::StrCat(
        python, " -c 'import sys; ", without, "sys.path.insert(0, \"scripts\"); import ",
        "simurgh_model; simurgh_model.load(\"", trained.model, "\", 40, True)'"));
  };
  const std::string no_hash = "sys.modules[\"xxhash\"] = None; ";
  CHECK(load("").exit_code == 0);
  CHECK(load(no_hash).exit_code == 0);
  const std::string manifest = trained.model + "/step-20/manifest.json";
  const std::string text = ReadText(manifest);
  std::ofstream(manifest) << ReadText(trained.model + "/step-40/manifest.json");
  if (has_hash) {
    const CommandResult result = load("");
    CHECK(result.exit_code != 0);
    CHECK_THAT(result.error, Contains("step-20 is not the checkpoint that it continues"));
  }
  std::ofstream(manifest) << absl::StrReplaceAll(text,
                                                 {{"\"generation\": 1", "\"generation\": 2"}});
  const CommandResult result = load(no_hash);
  CHECK(result.exit_code != 0);
  CHECK_THAT(result.error, Contains("by run and generation; install xxhash to compare checksums"));
}

// A training that begins with the rows and weights of files, and changes neither.
std::vector<std::string> WarmStart(const std::string& rows, const std::string& weights) {
  return {"tables.0.initial_rows=" + rows,
          "model.initial_weights=" + weights,
          "tables.0.optimizer.learning_rate=1e-30",
          "tables.0.initializer={kind: zero}",  // Rows of new ids.
          "training.dense_optimizer.learning_rate=1e-30",
          "model.towers.0.layers.1={batch_norm: {momentum: 1e-30}}",
          "model.towers.1.layers.1={batch_norm: {momentum: 1e-30}}"};
}

void CheckSameTest(const TrainerOutcome& a, const TrainerOutcome& b) {
  CHECK(std::stod(a.test_auc) == Approx(std::stod(b.test_auc)).margin(1e-6).epsilon(0));
  CHECK(std::stod(a.test_log_loss) == Approx(std::stod(b.test_log_loss)).margin(1e-6).epsilon(0));
}

TEST_CASE("A training that begins with exported rows and weights continues at their AUC") {
  const Trained first("config/adult.yaml", {"training.dense_optimizer.average_decay=0.9"});
  const std::string rows = first.folder.Path("{table}.safetensors");
  Export(absl::StrCat("embeddings --model ", first.model, " --output ", rows));
  const std::string weights = first.checkpoint.Path("dense.safetensors");
  std::vector<std::string> overrides = WarmStart(rows, weights);
  SECTION("in one process, with averages as before") {
    overrides.emplace_back("training.dense_optimizer.average_decay=0.9");
    const Trained second("config/adult.yaml", overrides);
    CheckSameTest(second.outcome, first.outcome);
    CHECK(WorstDifference(Predictions(second.model, first.test),
                          Predictions(first.model, first.test)) <= 1e-6);
    // The files are not read by a training that goes on.
    for (std::string& one : overrides) {
      if (one.find("initial_") != one.npos) one = one.substr(0, one.find('=') + 1) + "/nowhere";
    }
    overrides.insert(overrides.end(),
                     {"checkpoint.directory=" + second.model, "training.max_steps=61"});
    const TrainerOutcome third =
        RunStandalone({.config = "config/adult.yaml", .overrides = overrides});
    CHECK(third.exit_code == 0);
    CheckSameTest(third, first.outcome);
  }
  SECTION("on two servers, without a folder for the model, and without averages") {
    overrides.emplace_back("training.max_steps=1");
    TestCluster cluster({.config = "config/adult.yaml", .workers = 2, .overrides = overrides});
    const TrainerOutcome second = Finish(*cluster.StartTrainers(1)[0]);
    CHECK(second.exit_code == 0);
    CheckSameTest(second, first.outcome);
  }
}

TEST_CASE("Weights that PyTorch has trained for a step come back and predict") {
  const std::string python = Python("numpy, safetensors.numpy, torch");
  const Trained first("config/adult.yaml");
  const std::string rows = first.folder.Path("{table}.safetensors");
  const std::string features = first.folder.Path("features.safetensors");
  const std::string weights = first.folder.Path("tuned");
  Export(absl::StrCat("embeddings --model ", first.model, " --output ", rows));
  Export(absl::StrCat("features --model ", first.model, " --input ", first.test, " --output ",
                      features));
  const CommandResult tuned = RunCommand(absl::StrCat(python, " tests/cluster/fine_tune.py ",
                                                      first.model, " ", features, " ", weights));
  INFO(tuned.error);
  REQUIRE(tuned.exit_code == 0);
  const Trained second("config/adult.yaml", WarmStart(rows, weights));
  const std::vector<std::string> found = Predictions(second.model, first.test);
  CHECK(WorstDifference(found, Lines(tuned.out)) <= 1e-6);
  CHECK(WorstDifference(found, Predictions(first.model, first.test)) > 1e-3);
}

TEST_CASE("Initial rows and weights that do not fit are refused") {
  const Trained first("config/adult.yaml");
  const std::string rows = first.folder.Path("{table}.safetensors");
  Export(absl::StrCat("embeddings --model ", first.model, " --output ", rows));
  const std::string weights = first.checkpoint.Path("dense.safetensors");
  struct Bad {
    std::vector<std::string> overrides;
    std::string message;
  };
  const std::string age = first.folder.Path("age_id.safetensors");
  const std::vector<Bad> all = {
      {{"tables.0.initial_rows=/nowhere"}, "initial_rows /nowhere: cannot open /nowhere: No such"},
      {{"tables.0.dim=3", "tables.0.initial_rows=" + rows},
       "': tensor weights: the file has F32 ["},
      {{"tables.0.initial_rows=" + weights}, ": tensor id: the file has none, the table needs U64"},
      {{"model.initial_weights=" + age}, "the file has none, the model needs F32 ["},
      {{"model.initial_weights=" + weights, "tables.0.dim=3"}, "dense tensor '"},
      {{"model.initial_weights=/nowhere"}, "model.initial_weights /nowhere: cannot open"},
  };
  for (const Bad& bad : all) {
    CAPTURE(bad.overrides);
    std::string arguments =
        " --config config/adult.yaml --standalone --set nn_worker.instances=[{}]";
    for (const std::string& one : bad.overrides) absl::StrAppend(&arguments, " --set '", one, "'");
    const CommandResult refused = RunCommand(Program("nn-worker") + arguments);
    CHECK(refused.exit_code != 0);
    CHECK_THAT(refused.error, Contains(bad.message));
  }
}

}  // namespace
}  // namespace simurgh::testing
