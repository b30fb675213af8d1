#include "services/nn_worker/bucket_history.h"

#include <string>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/memory_file_system.h"

namespace simurgh {
namespace {

using Catch::Contains;

std::string Progress(int step, const std::string& more = "") {
  return absl::StrCat(R"({"event":"progress","step":)", step, more, "}");
}

}  // namespace

TEST_CASE("A start keeps the lines up to its step") {
  const std::string text = Progress(1) + "\n" + Progress(2) + "\n" + Progress(3) + "\n{\"event\":";
  CHECK(LinesUpTo(text, 2) == Progress(1) + "\n" + Progress(2) + "\n");
  CHECK(LinesUpTo("", 2).empty());
}

TEST_CASE("Thinned lines keep evaluations and learning rates") {
  const std::string evaluation = R"({"event":"validation","step":2,"auc":0.7})";
  const std::string text = Progress(1, R"(,"rate":0.5,"table_rates":{"t":0.1})") + "\n" +
                           Progress(2) + "\n" + evaluation + "\n" + Progress(3, R"(,"rate":0.4)") +
                           "\n" + Progress(4, R"(,"rate":0.3)") + "\n";
  CHECK(ThinnedLines(text) == Progress(2, R"(,"rate":0.5,"table_rates":{"t":0.1})") + "\n" +
                                  evaluation + "\n" + Progress(4, R"(,"rate":0.3)") + "\n");
}

TEST_CASE("A history in a bucket continues, and the last lines are written at the end") {
  testing::MemoryFileSystem files;
  ModelDirectory model("/m", files);
  CHECK(*model.NewGeneration() == 1);
  {
    const auto history = BucketHistory::Open(model, 0, 1);
    REQUIRE(history.ok());
    for (int step = 1; step <= 3; ++step) (*history)->Add(Progress(step));
  }
  CHECK(*model.ReadHistory() == Progress(1) + "\n" + Progress(2) + "\n" + Progress(3) + "\n");
  CHECK(*model.NewGeneration() == 2);
  {
    const auto history = BucketHistory::Open(model, 2, 2);
    REQUIRE(history.ok());
    (*history)->Add(Progress(4));
    (*history)->Write();
  }
  CHECK(*model.ReadHistory() == Progress(1) + "\n" + Progress(2) + "\n" + Progress(4) + "\n");
}

TEST_CASE("An older start does not replace the history of a newer one") {
  testing::MemoryFileSystem files;
  ModelDirectory model("/m", files);
  CHECK(*model.NewGeneration() == 1);
  {
    const auto history = BucketHistory::Open(model, 0, 1);
    REQUIRE(history.ok());
    CHECK(*model.NewGeneration() == 2);
    REQUIRE(model.WriteHistory("of 2\n", 2).ok());
    (*history)->Add(Progress(1));
  }
  CHECK(*model.ReadHistory() == "of 2\n");
}

}  // namespace simurgh
