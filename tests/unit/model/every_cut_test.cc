// Stops a start of training after each single operation on files, with and without a loss of power.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/support/memory_file_system.h"
#include "tests/unit/model/model_files.h"

namespace simurgh {
namespace {

using testing::MemoryFileSystem;
using testing::TestRows;
using testing::WriteCheckpoint;

constexpr uint64_t kOldSamples = 10;
constexpr uint64_t kNewSamples = 20;

// Writes a checkpoint; its manifest's samples tell it from another one of the same step.
Status Write(MemoryFileSystem& files, ModelDirectory& model, uint64_t step, uint64_t generation,
             uint64_t samples) {
  SIMURGH_ASSIGN_OR_RETURN(CheckpointAttempt attempt, model.Begin(step, generation));
  SIMURGH_ASSIGN_OR_RETURN(const std::string path, attempt.Path("rows/t/0.safetensors"));
  SIMURGH_ASSIGN_OR_RETURN(
      TensorFileWriter writer,
      TensorFileWriter::Create(path, {{"id", DType::kU64, {4}}, {"uses", DType::kU16, {4}}}, {},
                               files));
  const std::vector<uint64_t> ids(4, samples);
  const std::vector<uint16_t> uses(4);
  SIMURGH_RETURN_IF_ERROR(writer.Write("id", testing::BytesOf(ids)));
  SIMURGH_RETURN_IF_ERROR(writer.Write("uses", testing::BytesOf(uses)));
  SIMURGH_RETURN_IF_ERROR(writer.Finish().status());
  SIMURGH_ASSIGN_OR_RETURN(const std::string note, attempt.Path("note.txt"));
  SIMURGH_RETURN_IF_ERROR(files.WriteFile(note, "a note"));
  Manifest manifest;
  manifest.samples = samples;
  return attempt.Publish(std::move(manifest)).status();
}

struct Outcome {
  uint64_t setup = 0;  // Operations before the new checkpoint is begun.
  bool published = false;
  bool done = false;
};

// A start of training that finds one checkpoint and an attempt that was cut off, writes another
// checkpoint and removes the first one. It is stopped `cut` operations after the setup.
Outcome Run(MemoryFileSystem& files, uint64_t new_step, uint64_t cut) {
  ModelDirectory model("/m/model", files);
  REQUIRE(*model.NewGeneration() == 1);
  REQUIRE(Write(files, model, 9, 1, 9).ok());
  REQUIRE(Write(files, model, 10, 1, kOldSamples).ok());
  REQUIRE(files.MakeFolders("/m/model/step-11.tmp-1/rows").ok());
  REQUIRE(files.MakeFolders("/m/model/step-8.removed/rows").ok());
  REQUIRE(files.MakeFolders("/m/model/removed.tmp-1/step-7/rows").ok());
  Outcome outcome{.setup = files.operations()};
  if (cut != MemoryFileSystem::kNever) files.FailAfter(outcome.setup + cut);
  outcome.done = [&] {
    if (!model.NewGeneration().ok() || !model.KeepRun(5, 2).ok()) return false;
    if (!model.RemoveLeftovers(2).ok()) return false;
    outcome.published = Write(files, model, new_step, 2, kNewSamples).ok();
    return outcome.published && model.KeepNewest(1, {}, 2).ok();
  }();
  return outcome;
}

// The newest checkpoint is one of the two, whole, and a next start works.
void CheckSurvivor(MemoryFileSystem files, const Outcome& outcome) {
  files.FailAfter(MemoryFileSystem::kNever);
  ModelDirectory model("/m/model", files);
  const auto latest = model.Latest();
  INFO(latest.status());
  REQUIRE(latest.ok());
  CHECK(latest->warnings.empty());
  const Manifest& manifest = latest->checkpoint.manifest;
  CHECK(
      (manifest.samples == kNewSamples || (manifest.samples == kOldSamples && !outcome.published)));
  const auto damage =
      model.Open(manifest.step)->Verify([](const std::string&, uint64_t, uint64_t) {});
  REQUIRE(damage.ok());
  CHECK(damage->empty());
  const auto generation = model.NewGeneration();
  REQUIRE(generation.ok());
  CHECK(*generation > manifest.generation);
  const auto run = model.KeepRun(6, *generation);
  CHECK((run == StatusOr<uint64_t>(5) || (run == StatusOr<uint64_t>(6) && !outcome.published)));
  REQUIRE(model.RemoveLeftovers(*generation).ok());
  REQUIRE(Write(files, model, 30, *generation, 30).ok());
  REQUIRE(model.KeepNewest(1, {}, *generation).ok());
  CHECK(*files.List("/m/model") ==
        std::vector<std::string>{"generation-" + std::to_string(*generation), "latest", "run",
                                 "step-30/"});
}

TEST_CASE("After each operation the newest checkpoint is the old or the new one") {
  const uint64_t new_step = GENERATE(20, 10);  // 10 replaces the old checkpoint.
  CAPTURE(new_step);
  MemoryFileSystem whole;
  const Outcome undisturbed = Run(whole, new_step, MemoryFileSystem::kNever);
  REQUIRE(undisturbed.done);
  const uint64_t operations = whole.operations() - undisturbed.setup;
  REQUIRE(operations > 30);
  Random random(new_step);
  for (uint64_t cut = 0; cut <= operations; ++cut) {
    MemoryFileSystem files;
    const Outcome outcome = Run(files, new_step, cut);
    CHECK(outcome.done == (cut == operations));
    INFO("cut " << cut << " of " << operations << ", after: " << files.log().back());
    // The process died, and the machine did not.
    CheckSurvivor(files.AfterPowerLoss([] { return true; }), outcome);
    CheckSurvivor(files.AfterPowerLoss([] { return false; }), outcome);
    for (int i = 0; i < 20; ++i) {
      CheckSurvivor(files.AfterPowerLoss([&] { return random.Below(2) == 0; }), outcome);
    }
  }
}

TEST_CASE("A failed operation leaves the old checkpoint or the new one") {
  MemoryFileSystem whole;
  const Outcome undisturbed = Run(whole, 20, MemoryFileSystem::kNever);
  for (uint64_t at = undisturbed.setup; at < whole.operations(); ++at) {
    MemoryFileSystem files;
    files.FailOnce(at, absl::UnknownError("I/O error"));
    const Outcome outcome = Run(files, 20, MemoryFileSystem::kNever);
    CAPTURE(whole.log()[at]);
    CheckSurvivor(files.AfterPowerLoss([] { return true; }), outcome);
    CheckSurvivor(files.AfterPowerLoss([] { return false; }), outcome);
  }
}

}  // namespace
}  // namespace simurgh
