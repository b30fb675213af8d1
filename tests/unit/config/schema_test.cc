// The JSON Schema of cluster files, read by a library of another project.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "config/sections.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/config/sample.h"
#include "tests/unit/model/command.h"

namespace simurgh::testing {
namespace {

// What the schema says of each file.
std::vector<std::string> Validate(const TemporaryFolder& folder,
                                  const std::vector<std::string>& files) {
  const std::string python = Python("jsonschema, yaml");
  std::string command = absl::StrCat(python, " tests/unit/config/validate_yaml.py ",
                                     folder.Write("schema.json", ConfigSchema()));
  for (const std::string& file : files) absl::StrAppend(&command, " ", file);
  const CommandResult result = RunCommand(command);
  INFO(result.error);
  REQUIRE(result.exit_code == 0);
  std::vector<std::string> lines = absl::StrSplit(result.out, '\n');
  lines.pop_back();
  REQUIRE(lines.size() == files.size());
  return lines;
}

TEST_CASE("The schema accepts every committed configuration", "[config]") {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("config")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  CHECK(files.size() >= 10);
  const TemporaryFolder folder;
  files.push_back(folder.Write("sample.yaml", kSample));
  const std::vector<std::string> found = Validate(folder, files);
  for (size_t i = 0; i < files.size(); ++i) {
    CAPTURE(files[i]);
    CHECK(found[i] == "ok");
  }
}

struct Change {
  const char* from;  // A part of config/adult.yaml.
  const char* to;
  const char* found;      // The key and the rule of the schema.
  bool is_valid = false;  // For the parser.
};

// The schema has no rules across keys.
const std::vector<Change> kChanges = {
    {"batch_size: 128", "batchsize: 128", "training: additionalProperties"},
    {"batch_size: 128", "batch_size: many", "training.batch_size: type"},
    {"batch_size: 128", "batch_size: 0", "training.batch_size: minimum"},
    {"batch_size: 128", "batch_size: 65536", "training.batch_size: maximum"},
    {"batch_size: 128", "batch_size: [128]", "training.batch_size: type"},
    {"batch_size: 128", "batch_size: 128\n  drop_last: 1", "training.drop_last: type"},
    {"batch_size: 128", "batch_size: 128\n  drop_last: false", "ok", true},
    {"progress_interval: 200ms", "progress_interval: 200", "training.progress_interval: type"},
    {"progress_interval: 200ms", "progress_interval: 2h", "training.progress_interval: pattern"},
    {"kind: adam, ", "kind: adamw, ", "training.dense_optimizer.kind: enum"},
    {"learning_rate: 0.001", "learning_rate: -1",
     "training.dense_optimizer.learning_rate: minimum"},
    {"learning_rate: 0.001", "learning_rate: 1e-3", "ok", true},
    {"{linear: 16}", "{linear: 0}", "model.towers.0.layers.0: anyOf"},
    {"{linear: 16}", "{linaer: 16}", "model.towers.0.layers.0: anyOf"},
    {"{linear: 16}", "{linear: 16, sum: 1}", "model.towers.0.layers.0: anyOf"},
    {"batch_norm, relu]}\n    - {name: sparse", "batchnorm, relu]}\n    - {name: sparse",
     "model.towers.0.layers.1: anyOf"},
    {"batch_norm, relu]}\n    - {name: sparse",
     "{batch_norm: {momentum: 0.2}}]}\n    - {name: sparse", "ok", true},
    {"towers:", "dlrm: {bottom: [relu], top: [relu]}\n  towers:", "model: oneOf"},
    {"cluster: {name: adult, seed: 1}", "cluster: {seed: 1}", "ok", true},
    {"cluster: {name: adult, seed: 1}\n", "", "ok", true},
    {"cluster: {name: adult, seed: 1}", "cluster: {name: adult, seed: -1}",
     "cluster.seed: minimum"},
    {"cluster: {name: adult, seed: 1}", "cluster: {name: adult, seed: 18446744073709551615}", "ok",
     true},
    {"{name: age_id, ", "{name: 'the age', ", "features.0.name: pattern"},
    {"{name: age_id, ", "{", "features.0: required"},
    {"  - names:", "  - name: x\n    names:", "tables.0: oneOf"},
    {"train: [data/adult/adult.train.csv.zst]", "train: a.csv", "data.train: type"},
    {"format: csv", "format: criteo", "data: false"},
    {"missing_values: [\"\"]", "missing_values: [\"\", NA, 0]", "ok", true},
    {"training:\n", "serving:\ntraining:\n", "ok", true},
    {"training:\n", "plotting: 1\ntraining:\n", ": additionalProperties"},
    {"partitions: 2", "partitions: 2.5", "embedding_ps.partitions: type"},
};

TEST_CASE("The schema refuses what the parser refuses: misspelt keys, types and ranges",
          "[config]") {
  StatusOr<std::string> adult = ReadConfigFile("config/adult.yaml");
  REQUIRE(adult.ok());
  const TemporaryFolder folder;
  std::vector<std::string> files;
  for (const Change& change : kChanges) {
    CAPTURE(change.from);
    REQUIRE(absl::StrContains(*adult, change.from));
    const std::string text = absl::StrReplaceAll(*adult, {{change.from, change.to}});
    files.push_back(folder.Write(absl::StrCat(files.size(), ".yaml"), text));
    const Status parsed = ParseClusterConfig(text, "config/adult.yaml", {}).status();
    CAPTURE(change.to, parsed.ToString());
    CHECK(parsed.ok() == change.is_valid);
  }
  const std::vector<std::string> found = Validate(folder, files);
  for (size_t i = 0; i < files.size(); ++i) {
    CAPTURE(kChanges[i].to);
    CHECK(found[i] == kChanges[i].found);
  }
}

TEST_CASE("A model may be a name in the schema", "[config]") {
  const auto file = [](const std::string& model) {
    return absl::StrCat("model: ", model,
                        "\ndata: {train: [CMakeLists.txt], columns: [{name: a, kind: id}, "
                        "{name: b, kind: id}, ",
                        "{name: x, kind: dense}, {name: y, kind: label}]}\n");
  };
  const TemporaryFolder folder;
  std::vector<std::string> files;
  std::vector<std::string> wanted;
  for (const char* model : {"deepfm", "wide_deep", "dlrm", "dcn_v2", "{deepfm: {}}", "{dlrm: }",
                            "{}", "{loss: {kind: focal}}"}) {
    CAPTURE(model);
    CHECK(ParseClusterConfig(file(model), "a.yaml", {}).status() == absl::OkStatus());
    files.push_back(folder.Write(absl::StrCat(files.size(), ".yaml"), file(model)));
    wanted.emplace_back("ok");
  }
  for (const auto& [model, found] :
       {std::pair("depfm", "model: enum"), std::pair("towers", "model: enum"),
        std::pair("[deepfm]", "model: oneOf; model: type")}) {
    CAPTURE(model);
    CHECK_FALSE(ParseClusterConfig(file(model), "a.yaml", {}).ok());
    files.push_back(folder.Write(absl::StrCat(files.size(), ".yaml"), file(model)));
    wanted.emplace_back(found);
  }
  const std::vector<std::string> result = Validate(folder, files);
  CHECK(result == wanted);
}

TEST_CASE("The schema has every key of the reference", "[config]") {
  const std::string schema = ConfigSchema();
  for (const KnownKey& key : KnownKeys()) {
    CAPTURE(key.key);
    CHECK(absl::StrContains(schema,
                            absl::StrCat("\"", key.key.substr(key.key.rfind('.') + 1), "\": {")));
    CHECK_FALSE(key.schema.empty());
  }
}

}  // namespace
}  // namespace simurgh::testing
