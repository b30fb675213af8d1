#include <cstdlib>
#include <filesystem>
#include <string>

#include <sys/wait.h>

#include <catch2/catch.hpp>

#include "tests/unit/data/data_files.h"

// Runs the program itself.
namespace simurgh {
namespace {

struct Outcome {
  int exit_code;
  std::string out;
  std::string error;
};

Outcome Datagen(const TemporaryFolder& folder, const std::string& options) {
  const std::string command = std::string(DATAGEN_PROGRAM) + " " + options + " > " +
                              folder.Path("stdout") + " 2> " + folder.Path("stderr");
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), ReadWholeFile(folder.Path("stdout")),
          ReadWholeFile(folder.Path("stderr"))};
}

std::string Generate(const TemporaryFolder& folder, const std::string& name,
                     const std::string& options) {
  const Outcome outcome =
      Datagen(folder, "--distinct-ids 10000 --output " + folder.Path(name) + " " + options);
  INFO(outcome.error);
  REQUIRE(outcome.exit_code == 0);
  return ReadWholeFile(folder.Path(name));
}

TEST_CASE("A seed decides the file; threads do not") {
  const TemporaryFolder folder;
  const std::string text = Generate(folder, "a.tsv", "--seed 3 --samples 40000 --threads 1");
  CHECK(text == Generate(folder, "b.tsv", "--seed 3 --samples 40000 --threads 3"));
  CHECK(text != Generate(folder, "c.tsv", "--seed 4 --samples 40000"));
  CHECK(text == Generate(folder, "d.tsv", "--seed 3 --samples 30000") +
                    Generate(folder, "e.tsv", "--seed 3 --samples 10000 --first 30000"));
}

TEST_CASE("The report has a line a number, or one line of JSON") {
  const TemporaryFolder folder;
  const std::string start = "--distinct-ids 1000 --samples 20000 --output " + folder.Path("a");
  const Outcome lines = Datagen(folder, start);
  CHECK(lines.exit_code == 0);
  CHECK_THAT(lines.out, Catch::StartsWith("samples 20000\ndistinct_ids 1000\npositive_rate 0.2"));
  CHECK_THAT(lines.out, Catch::Contains("auc_samples 20000\nteacher_auc 0.8"));
  CHECK_THAT(lines.out, Catch::Contains("\nteacher_auc_without_interactions 0."));
  CHECK_THAT(lines.out, Catch::Contains("\nteacher_auc_dense_only 0.6"));
  CHECK_THAT(lines.error, Catch::Contains("20000 of 20000 samples"));
  const Outcome json = Datagen(folder, start + " --json --report-samples 10000");
  CHECK_THAT(json.out, Catch::StartsWith("{\"samples\": 20000, "));
  CHECK_THAT(json.out, Catch::Contains("\"auc_samples\": 10000, \"teacher_auc\": 0.8"));
  const Outcome none = Datagen(folder, start + " --json --report-samples 0");
  CHECK_THAT(none.out, Catch::Contains("\"teacher_auc\": null"));
}

TEST_CASE("Teachers of a sequence and of experts write CSV with a header, and their AUCs") {
  const TemporaryFolder folder;
  const std::string start = "--samples 20000 --output " + folder.Path("a") + " --teacher ";
  const Outcome sequence = Datagen(folder, start + "sequence");
  CHECK(sequence.exit_code == 0);
  CHECK_THAT(sequence.out, Catch::Contains("distinct_ids 100\n"));
  CHECK_THAT(sequence.out, Catch::Contains("\nteacher_auc 0.9"));
  CHECK_THAT(sequence.out, Catch::Contains("\nteacher_auc_dense_only nan\n"));
  const std::string text = ReadWholeFile(folder.Path("a"));
  CHECK_THAT(text, Catch::StartsWith("item,seen,label\n"));
  const std::string first = Generate(folder, "b", "--teacher sequence --samples 15000 --threads 3");
  const std::string rest = Generate(folder, "c", "--teacher sequence --samples 5000 --first 15000");
  CHECK(text == first + rest.substr(rest.find('\n') + 1));
  const Outcome purchases = Datagen(folder, start + "purchases");
  CHECK_THAT(purchases.out, Catch::Contains("\nteacher_auc 0.8"));
  CHECK_THAT(purchases.out, Catch::Contains("\nteacher_auc_label2 0.8"));
  const Outcome experts = Datagen(folder, start + "experts");
  CHECK_THAT(experts.out, Catch::Contains("\nteacher_auc 0.8"));
  CHECK_THAT(experts.out, Catch::Contains("\nteacher_auc_label2 0.8"));
  CHECK_THAT(ReadWholeFile(folder.Path("a")),
             Catch::StartsWith("segment,x1,x2,x3,x4,x5,x6,x7,x8,y1,y2\n"));
}

TEST_CASE("Help and version") {
  const TemporaryFolder folder;
  const Outcome help = Datagen(folder, "--help");
  CHECK(help.exit_code == 0);
  CHECK_THAT(help.out, Catch::Contains("--distinct-ids"));
  const Outcome version = Datagen(folder, "--version");
  CHECK(version.exit_code == 0);
  CHECK_THAT(version.out, Catch::StartsWith("datagen "));
}

TEST_CASE("Bad options exit with 2, and nothing is written") {
  struct Bad {
    std::string options;
    int exit_code;
    std::string message;
  };
  const Bad bad = GENERATE(values<Bad>({
      {"", 2, "the option '--output' is required"},
      {"--output a", 2, "the option '--samples' is required"},
      {"--output a --samples 0", 2, "--samples: 0 is out of range; use 1 or more"},
      {"--output a --samples -1", 2, "--samples: -1 is"},
      {"--output a --samples many", 2, "many"},
      {"--output a --samples 1 --first -1", 2, "--first: -1 is out of range; use 0 or more"},
      {"--output a --samples 1 --threads 0", 2, "--threads: 0 is out of range; use 1 to 1024"},
      {"--output a --samples 1 --sead 1", 2, "sead"},
      {"--output a --samples 1 stray", 2, "unexpected argument"},
      {"--output a --samples 1 --teacher sequences", 2,
       "--teacher: 'sequences' is unknown; use clicks, sequence, experts or purchases"},
      {"--output a --samples 1 --missing 2", 2, "--missing: 2 is out of range; use 0 to 0.9"},
      {"--output nowhere/a --samples 1", 2,
       "--output: cannot create nowhere/a: No such file or directory"},
  }));
  CAPTURE(bad.options);
  const TemporaryFolder folder;
  const Outcome outcome = Datagen(folder, bad.options);
  CHECK(outcome.exit_code == bad.exit_code);
  CHECK_THAT(outcome.error, Catch::StartsWith("datagen: ") && Catch::Contains(bad.message));
  CHECK(outcome.out.empty());
  CHECK_FALSE(std::filesystem::exists("a"));
}

TEST_CASE("Output that is lost is an error, of the report and of --help") {
  const TemporaryFolder folder;
  const std::string program = std::string(DATAGEN_PROGRAM) + " ";
  for (const std::string& options :
       {std::string("--help"), "--distinct-ids 1000 --samples 10 --output " + folder.Path("a")}) {
    CAPTURE(options);
    const std::string command = program + options + " > /dev/full 2> " + folder.Path("stderr");
    const int status = std::system(command.c_str());
    CHECK(WEXITSTATUS(status) == 3);
    CHECK_THAT(ReadWholeFile(folder.Path("stderr")),
               Catch::Contains("cannot write to stdout, its output is incomplete: No space left"));
  }
}

}  // namespace
}  // namespace simurgh
