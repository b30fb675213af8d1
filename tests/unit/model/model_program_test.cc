// Runs `simurgh model`.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/command.h"
#include "tests/unit/model/model_files.h"

namespace simurgh {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using testing::CommandResult;
using testing::ReadText;
using testing::RunCommand;
using testing::WriteText;

CommandResult Simurgh(const std::string& arguments) {
  const char* const folder = std::getenv("SIMURGH_BIN_DIR");
  SIMURGH_CHECK(folder != nullptr) << "set SIMURGH_BIN_DIR to build/<preset>/bin";
  return RunCommand(std::string(folder) + "/simurgh " + arguments);
}

struct Model {
  Model() : model(folder.Path("model")) {
    REQUIRE(model.NewGeneration().ok());
    testing::WriteCheckpoint(model, 10, 1, 10);
    newest = testing::WriteCheckpoint(model, 20, 1, 70'000);
    rows = newest.Path("rows/t/0.safetensors");
  }

  TemporaryFolder folder;
  ModelDirectory model;
  Checkpoint newest;
  std::string rows;
};

TEST_CASE("simurgh compares models and exports rows") {
  const Model model;
  const std::string path = model.model.path();
  const CommandResult same = Simurgh("model diff " + path + " " + path + "/step-20");
  CHECK(same.exit_code == 0);
  CHECK(same.out.empty());
  CHECK_THAT(Simurgh("model diff " + path + "/step-10 " + path).out,
             StartsWith("table t: ") && Contains(" rows only in the second, such as id "));
  const CommandResult differ = Simurgh("model diff --json " + path + "/step-10 " + path);
  CHECK_THAT(nlohmann::json::parse(differ.out)["differences"][0].get<std::string>(),
             StartsWith("table t: "));
  const testing::TestRows rows(10);
  const std::string ids = model.folder.Path("ids");
  WriteText(ids, std::to_string(rows.id[4]) + "\n1\n");
  const std::string from = "export embeddings --step 10 --model " + path;
  const CommandResult one = Simurgh(from + " --output - --all-tensors --ids " + ids);
  CHECK(one.exit_code == 0);
  CHECK_THAT(one.out,
             StartsWith("id,uses,weights.0,") && Contains("\n" + std::to_string(rows.id[4]) + ","));
  const std::string file = model.folder.Path("t.csv");
  CHECK(Simurgh(from + " --output " + model.folder.Path("{table}.csv")).exit_code == 0);
  CHECK_THAT(ReadText(file), StartsWith("id,weights.0,"));
  CHECK(std::ranges::count(ReadText(file), '\n') == 11);
  CHECK(Simurgh(from + " --table lost --output " + file).exit_code == 3);
  CHECK_THAT(Simurgh(from + " --output " + model.folder.Path("rows")).error,
             Contains("rows: its format is not known; use a name that ends in .safetensors"));
  WriteText(ids, "x\n");
  CHECK_THAT(Simurgh(from + " --output - --ids " + ids).error, Contains(":1: 'x' is not an id"));
}

TEST_CASE("simurgh export names the file that grows beyond the limit of file sizes") {
  const Model model;
  const std::string command = std::string(std::getenv("SIMURGH_BIN_DIR")) +
                              "/simurgh export embeddings --model " + model.model.path();
  const std::string file =
      model.folder.Path(GENERATE(as<std::string>(), "rows.csv", "rows.npz", "rows.safetensors"));
  const CommandResult limited = RunCommand("ulimit -f 1; " + command + " --output " + file);
  CHECK(limited.exit_code == 3);
  CHECK_THAT(limited.error, Contains(file));
  CHECK(std::distance(std::filesystem::directory_iterator(model.folder.path()), {}) == 1);
}

TEST_CASE("simurgh model lists and describes checkpoints") {
  const Model model;
  const CommandResult list = Simurgh("model list " + model.model.path());
  CHECK(list.exit_code == 0);
  CHECK_THAT(list.out, StartsWith("step-10  full  generation 1  2026-09-21 14:13:21 UTC  ") &&
                           Contains("\nstep-20  full  generation 1  ") && Contains(" auc=0.3 "));
  const CommandResult info = Simurgh("model info " + model.model.path());
  CHECK(info.exit_code == 0);
  CHECK(info.error.empty());
  CHECK_THAT(info.out, Contains("\nstep: 20\n") && Contains("\nrun: 18364758544493064720\n") &&
                           Contains("\nwire: bf16\nstatistics age: 3 numbers\n") &&
                           Contains("\n  weights F32 [70000, 3]\n") &&
                           Contains("\n  half.format: bf16\n") &&
                           Contains("\nconfig training.batch_size = 256\n"));
  CHECK_THAT(Simurgh("model info " + model.model.path() + " 10").out,
             Contains("\n  weights F32 [10, 3]\n"));
  const auto json = [&](const std::string& words) {
    return nlohmann::json::parse(Simurgh(words + " --json").out);
  };
  auto listed = json("model list " + model.model.path())["checkpoints"];
  REQUIRE(listed.size() == 2);
  CHECK(listed[0]["step"] == 10);
  CHECK(listed[0]["kind"] == "full");
  CHECK(listed[1]["metrics"]["auc"].get<double>() == Approx(0.3));
  CHECK(listed[1]["bytes"] > 0);
  const auto described = json("model info " + model.model.path());
  CHECK(described["manifest"]["step"] == 20);
  CHECK(described["folder"] == model.newest.folder);
  CHECK(described["tensors"]["rows/t/0.safetensors"].dump().find(
            "{\"dtype\":\"F32\",\"name\":\"weights\",\"shape\":[70000,3]}") != std::string::npos);
  std::filesystem::resize_file(model.newest.Path("manifest.json"), 9);
  CHECK_THAT(Simurgh("model list " + model.model.path()).out, Contains("\nstep-20  unreadable: "));
  CHECK(json("model list " + model.model.path())["checkpoints"][1].contains("problem"));
}

TEST_CASE("simurgh model verify finds damage, and names file, tensor and rows") {
  const Model model;
  const std::string verify = "model verify " + model.model.path();
  const CommandResult sound = Simurgh(verify);
  CHECK(sound.exit_code == 0);
  CHECK(sound.out == model.newest.folder + ": all 2 files are sound\n");
  CHECK(nlohmann::json::parse(Simurgh(verify + " --json").out) ==
        nlohmann::json(
            {{"folder", model.newest.folder}, {"files", 2}, {"damage", nlohmann::json::array()}}));
  CHECK(sound.error.empty());

  std::string message;
  SECTION("a bit of a row") {
    std::string bad = ReadText(model.rows);
    bad.back() ^= 16;
    WriteText(model.rows, bad);
    message = model.rows + ": tensor half, rows 65536 to 69999: the checksum is ";
  }
  SECTION("a bit of the header") {
    std::string bad = ReadText(model.rows);
    bad[bad.find("\"table\":\"t\"") + 9] ^= 1;
    WriteText(model.rows, bad);
    message = model.rows + ": the file has ";
  }
  SECTION("a shortened file") {
    std::filesystem::resize_file(model.rows, 1000);
    message = model.rows + ": it has 1000 bytes; its header describes ";
  }
  SECTION("a missing file") {
    std::filesystem::remove(model.rows);
    message = "cannot open " + model.rows + ": No such file or directory";
  }
  SECTION("a newer format version") {
    WriteText(model.newest.Path("manifest.json"), R"({"format_version": 2})");
    message = model.newest.Path("manifest.json") +
              ": format_version: the checkpoint has version 2; this program reads version 1";
  }
  const CommandResult damaged = Simurgh(verify + " 20");
  CHECK(damaged.exit_code == 3);
  CHECK(damaged.out.empty());
  CHECK_THAT(damaged.error, Contains("simurgh: " + message));
  CHECK(Simurgh(verify + " 10").exit_code == 0);
}

TEST_CASE("Without a step, verify names a damaged newest checkpoint and checks an older one") {
  const Model model;
  std::filesystem::resize_file(model.rows, 1000);
  const CommandResult older = Simurgh("model verify " + model.model.path());
  CHECK(older.exit_code == 3);
  CHECK_THAT(older.error, Contains("simurgh: warning: " + model.rows + ": it has 1000 bytes"));
  CHECK_THAT(older.out, Contains("/step-10: all 2 files are sound"));
}

TEST_CASE("Bad arguments exit with 2, missing models with 3") {
  struct Bad {
    std::string arguments;
    int exit_code;
    std::string message;
  };
  const Bad bad = GENERATE(values<Bad>({
      {"", 2, "a command is missing; use one of init, train, "},
      {"modle", 2, "'modle' is not a command; the nearest command is 'model'"},
      {"trian --help", 2, "'trian' is not a command; the nearest command is 'train'"},
      {"model", 2,
       "model: '' is not an action; use list, info, history, verify, diff, merge or seal"},
      {"model lost m", 2, "model: 'lost' is not an action"},
      {"model list", 2, "model list: MODEL is missing"},
      {"model list m 1", 2, "unexpected argument '1'"},
      {"model info m 1 2", 2, "unexpected argument '2'"},
      {"model info m one", 2, "STEP: 'one' is not a number from 0 on"},
      {"model info m --steps", 2, "--steps"},
      {"export", 2, "export: '' is not an action; use onnx, embeddings, features or vectors"},
      {"export vectors --model m --output o.npz", 2, "--input is missing"},
      {"export vectors --model m --output o --input i", 2, "its format is not known"},
      {"export vectors --model m --output o.npz --input i --tower shop", 2,
       "--tower: 'shop' is not a tower; use item or user"},
      {"export embeddings --output o", 2, "--model is missing"},
      {"export onnx --model m", 2, "--output is missing"},
      {"export onnx --model m --output o more", 2, "unexpected argument 'more'"},
      {"export features --model m --output o.npz", 2, "--input is missing"},
      {"export features --model m --output o --input i", 2, "its format is not known"},
      {"export onnx --model nowhere --output o", 3, "cannot list folder nowhere"},
      {"model list nowhere", 3, "cannot list folder nowhere: No such file or directory"},
      {"model info nowhere", 3, "cannot list folder nowhere: No such file or directory"},
      {"model verify nowhere 1", 3, "cannot list folder nowhere: No such file or directory"},
      {"model info tests 1", 3, "tests: there is no checkpoint of step 1"},
      {"model info tests", 3, "tests: there is no checkpoint"},
      {"model list tests > /dev/full", 3, "cannot write to stdout"},
  }));
  CAPTURE(bad.arguments);
  const CommandResult result = Simurgh(bad.arguments);
  CHECK(result.exit_code == bad.exit_code);
  CHECK_THAT(result.error, StartsWith("simurgh: ") && Contains(bad.message));
  CHECK(result.out.empty());
}

TEST_CASE("Help and version of simurgh") {
  const CommandResult help = Simurgh("--help");
  CHECK(help.exit_code == 0);
  CHECK_THAT(help.out, Contains("simurgh model verify MODEL [STEP]"));
  CHECK_THAT(Simurgh("model --help").out,
             Contains("simurgh model verify MODEL [STEP]") && Contains("Exit codes: 0"));
  CHECK_THAT(Simurgh("--version").out, StartsWith("simurgh "));
}

}  // namespace
}  // namespace simurgh
