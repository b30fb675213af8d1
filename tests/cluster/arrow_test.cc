// Training and prediction on Parquet and Arrow data: the same as on the CSV file with the rows.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/file_descriptor.h"
#include "tests/cluster/run_cluster.h"
#include "tests/cluster/trained_model.h"
#include "tests/support/python.h"
#include "tests/support/skip.h"
#include "tests/support/test_cluster.h"
#include "tests/support/waiting.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

constexpr char kColumns[] =
    "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,"
    "gender,capital_gain,capital_loss,hours_per_week,native_country,income";
const std::vector<std::string> kReproducible{"training.reproducible=true", "training.staleness=4"};

void RequireModule() {
  if (std::filesystem::exists(Program("libsimurgh_arrow.so"))) return;
  SIMURGH_SKIP("libsimurgh_arrow.so is not built; scripts/bootstrap.sh --arrow gets Arrow C++");
}

// The command that hands on the rows of a file of Adult.
std::string Writer(const std::string& part, const std::string& target) {
  return absl::StrCat(Python("pyarrow"), " tests/cluster/arrow_rows.py config/data/adult/adult.",
                      part, ".csv.zst ", kColumns, " ", target);
}

std::string WriteParquet(const TemporaryFolder& folder, const std::string& part) {
  const std::string path = folder.Path(part + ".parquet");
  REQUIRE(std::system(Writer(part, path).c_str()) == 0);
  return path;
}

std::string WriteArrow(const TemporaryFolder& folder, const std::string& part) {
  const std::string path = folder.Path(part + ".arrow");
  REQUIRE(std::system((Writer(part, "-") + " > " + path).c_str()) == 0);
  return path;
}

std::vector<std::string> With(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), kReproducible.begin(), kReproducible.end());
  return overrides;
}

const TrainerOutcome& OfCsv() {
  static const TrainerOutcome outcome = RunCluster({.overrides = kReproducible});
  return outcome;
}

// Rows of a stream are not shuffled.
const TrainerOutcome& OfCsvInOrder() {
  static const TrainerOutcome outcome = RunCluster({.overrides = With({"data.shuffle=0"})});
  return outcome;
}

TEST_CASE("Parquet files train the model that the CSV files train, to the last bit") {
  RequireModule();
  const TemporaryFolder folder;
  WriteParquet(folder, "train");
  const TrainerOutcome outcome = RunCluster(
      {.overrides = With({"data.format=parquet",
                          absl::StrCat("data.train=['", folder.path(), "/tr*.parquet']"),
                          absl::StrCat("data.test=[", WriteParquet(folder, "test"), "]")})});
  CHECK(outcome.network_digest == OfCsv().network_digest);
  CHECK(outcome.test_auc == OfCsv().test_auc);
}

TEST_CASE("Feeders of a socket's stream train the same model") {
  RequireModule();
  const TemporaryFolder folder;
  const std::string socket = folder.Path("rows");
  FILE* const server = ::popen((Writer("train", "unix:" + socket) + " 2").c_str(), "r");
  REQUIRE(server != nullptr);
  TestCluster cluster(
      {.loaders = 2,
       .overrides = With({"data.format=arrow", absl::StrCat("data.train=['unix:", socket, "']"),
                          absl::StrCat("data.test=[", WriteArrow(folder, "test"), "]")})});
  REQUIRE(Eventually([&] { return std::filesystem::exists(socket); }));
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log(), one->log(), other->log());
  CHECK(outcome.network_digest == OfCsvInOrder().network_digest);
  CHECK(outcome.test_auc == OfCsvInOrder().test_auc);
  CHECK(one->Wait(30s) == 0);
  CHECK(other->Wait(30s) == 0);
  CHECK(::pclose(server) == 0);
}

// Calls the function with a command's output as standard input.
template <typename Function>
void WithInput(const std::string& command, const Function& function) {
  FILE* const writer = ::popen(command.c_str(), "r");
  REQUIRE(writer != nullptr);
  const FileDescriptor own(::dup(STDIN_FILENO));
  REQUIRE(::dup2(::fileno(writer), STDIN_FILENO) == STDIN_FILENO);
  function();
  REQUIRE(::dup2(own.number(), STDIN_FILENO) == STDIN_FILENO);
  ::pclose(writer);
}

TEST_CASE("A feeder of standard input trains the same model") {
  RequireModule();
  const TemporaryFolder folder;
  TestCluster cluster(
      {.loaders = 1,
       .overrides = With({"data.format=arrow", "data.train=['-']",
                          absl::StrCat("data.test=[", WriteArrow(folder, "test"), "]")})});
  const auto trainer = cluster.StartTrainer();
  std::unique_ptr<DaemonProcess> feeder;
  WithInput(Writer("train", "-"), [&] {
    feeder = cluster.StartLoader(0);
    const TrainerOutcome outcome = Finish(*trainer);
    CAPTURE(trainer->log(), feeder->log());
    CHECK(outcome.network_digest == OfCsvInOrder().network_digest);
    CHECK(outcome.test_auc == OfCsvInOrder().test_auc);
    CHECK(feeder->Wait(30s) == 0);
  });
}

std::string ShortConfig(const TemporaryFolder& folder, const std::string& more) {
  return folder.Write("short.yaml", absl::StrCat(R"(data:
  format: parquet
)",
                                                 more, R"(
  columns:
    - {name: age, kind: dense, fit: true}
    - {name: hours_per_week, kind: dense, fit: true}
    - {name: education, kind: id}
    - {name: occupation, kind: id}
    - {name: income, kind: label, positive: [">50K"]}
    - {name: fnlwgt, kind: skip}
model: deepfm
)"));
}

TEST_CASE("A short file trains on a folder of Parquet; its model predicts Parquet and stdin") {
  RequireModule();
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.Path("rows"));
  std::filesystem::rename(WriteParquet(folder, "train"), folder.Path("rows/part-0.parquet"));
  const std::string test = WriteParquet(folder, "test");
  // Lists, ids with blanks and line ends, and a row that is longer than a line can be.
  const std::string script = folder.Write("lists.py", R"(
import sys
import pyarrow
import pyarrow.parquet
for path in sys.argv[1:]:
    table = pyarrow.parquet.read_table(path)
    place = table.column_names.index("occupation")
    lists = [[str(one), f" {one}\n"] for one in table["occupation"].to_pylist()]
    if path == sys.argv[1]:
        lists[0].append("x" * 1100000)
    pyarrow.parquet.write_table(table.set_column(place, "occupation", pyarrow.array(lists)), path)
)");
  REQUIRE(RunCommand(absl::StrCat(Python("pyarrow"), " ", script, " ", test, " ",
                                  folder.Path("rows/part-0.parquet")))
              .exit_code == 0);
  const std::string config =
      ShortConfig(folder, absl::StrCat("  train: [rows]\n  test: [", test, "]"));
  const std::string model = folder.Path("model");
  const CommandResult trained = Simurgh(absl::StrCat(
      "train ", config, " --set checkpoint.directory=", model, " --set training.max_steps=200",
      " --set \"embedding_ps.instances=[{address: 'unix://", folder.Path("ps"), "'}]\"",
      " --set \"embedding_worker.instances=[{address: 'unix://", folder.Path("worker"), "'}]\""));
  INFO(trained.error);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.error, !Catch::Contains("probe.csv"));
  const CommandResult parquet = Simurgh(absl::StrCat("predict --model ", model, " --input ", test,
                                                     " --output - --columns education,fnlwgt"));
  INFO(parquet.error);
  REQUIRE(parquet.exit_code == 0);
  const std::vector<std::string> lines = Lines(parquet.out);
  CHECK(lines.size() == 16'282);
  CHECK(lines[0] == "education,fnlwgt,p");
  CHECK_THAT(lines[1], Catch::StartsWith("11th,226802,0."));
  std::filesystem::create_directory(folder.Path("tests"));
  std::filesystem::copy(test, folder.Path("tests/a.parquet"));
  const std::string columns = " --output - --columns education,fnlwgt";
  for (const char* input : {"tests", "tests/*.parquet"}) {
    CHECK(Simurgh(absl::StrCat("predict --model ", model, " --input '", folder.Path(input), "'",
                               columns))
              .out == parquet.out);
  }
  const CommandResult evaluated =
      Simurgh(absl::StrCat("predict --model ", model, " --input ", test, " --evaluate"));
  CHECK(evaluated.exit_code == 0);
  const std::string result = trained.out.substr(trained.out.rfind("test_auc="));
  CHECK_THAT(evaluated.out, Catch::StartsWith(result.substr(0, result.find(' '))));
  // Rows keep their cells, such as long lists: without a permutation they have the same AUC.
  const CommandResult importance =
      Simurgh(absl::StrCat("predict --model ", model, " --input ", test,
                           " --importance --repeats 1 --importance-rows 20000"));
  INFO(importance.error);
  CHECK_THAT(importance.out, Catch::StartsWith("rows=16281 repeats=1 "));
  const std::string auc = result.substr(0, result.find(' ')).substr(result.find('_') + 1);
  CHECK_THAT(importance.out, Catch::Contains(absl::StrCat(" ", auc, "\n")));
  const CommandResult features =
      Simurgh(absl::StrCat("export features --model ", model, " --input ", test, " --output ",
                           folder.Path("features.npz")));
  INFO(features.error);
  CHECK(features.exit_code == 0);
  const CommandResult planned = Simurgh(absl::StrCat("plan --ids 10000 ", config));
  INFO(planned.error);
  CHECK(planned.exit_code == 0);
}

TEST_CASE("Without the module, an error says how to get it") {
  const TemporaryFolder folder;
  const std::string config =
      ShortConfig(folder, "  train: [" + folder.Write("a.parquet", "PAR1") + "]");
  ::setenv("SIMURGH_ARROW_MODULE", "/no/module.so", 1);
  const CommandResult planned = Simurgh("plan --ids 10000 " + config);
  ::unsetenv("SIMURGH_ARROW_MODULE");
  CHECK(planned.exit_code != 0);
  CHECK_THAT(planned.error, Catch::Contains("a.parquet") &&
                                Catch::Contains("need libsimurgh_arrow.so") &&
                                Catch::Contains("scripts/bootstrap.sh --arrow"));
}

}  // namespace
}  // namespace simurgh::testing
