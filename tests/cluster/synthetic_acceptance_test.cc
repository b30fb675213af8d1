// A model trained on generated data reaches nearly the AUC of the teacher that generated them.

#include <cstdio>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

struct TeacherAucs {
  double all = 0;
  double without_interactions = 0;
  double dense_only = 0;
};

// Writes samples [first, first + samples) of a teacher with a million ids.
TeacherAucs Generate(const std::string& file, const std::string& samples,
                     const std::string& first) {
  DaemonProcess datagen(
      "datagen",
      {"--output", file, "--samples", samples, "--first", first, "--distinct-ids", "1000000"},
      file + ".log");
  REQUIRE(datagen.Wait(std::chrono::seconds(300)) == 0);
  TeacherAucs aucs;
  std::istringstream report(datagen.output());
  std::string key;
  std::string value;
  while (report >> key >> value) {
    if (key == "teacher_auc") aucs.all = std::stod(value);
    if (key == "teacher_auc_without_interactions") aucs.without_interactions = std::stod(value);
    if (key == "teacher_auc_dense_only") aucs.dense_only = std::stod(value);
  }
  return aucs;
}

TEST_CASE(
    "Two million samples, a million ids: within 0.02 of the teacher, by learning embeddings") {
  const TemporaryFolder folder;
  const std::string train = folder.path() + "/train.tsv";
  const std::string test = folder.path() + "/test.tsv";
  Generate(train, "2000000", "0");
  const TeacherAucs teacher = Generate(test, "200000", "2000000");
  std::printf("teacher %.4f, without interactions %.4f, dense part alone %.4f\n", teacher.all,
              teacher.without_interactions, teacher.dense_only);
  CHECK(teacher.dense_only <= teacher.all - 0.08);
  CHECK(teacher.without_interactions <= teacher.all - 0.02);

  const TrainerOutcome outcome = RunStandalone(
      {.config = "config/criteo-synthetic.yaml",
       .overrides = {"data.train=[\"" + train + "\"]", "data.test=[\"" + test + "\"]"}},
      std::chrono::seconds(900));
  CAPTURE(outcome.exit_code);
  REQUIRE(outcome.exit_code == 0);
  std::printf("trained %s\n", outcome.test_auc.c_str());
  CHECK(std::stod(outcome.test_auc) >= teacher.all - 0.02);
}

}  // namespace
}  // namespace simurgh::testing
