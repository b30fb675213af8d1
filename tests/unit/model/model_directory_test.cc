#include "model/model_directory.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "base/file_descriptor.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/model_files.h"

namespace simurgh {
namespace {

using Catch::Contains;
using testing::ReadText;
using testing::TestManifest;
using testing::TestRows;
using testing::WriteCheckpoint;
using testing::WriteText;

const Checkpoint::Progress kSilent = [](const std::string&, uint64_t, uint64_t) {};

std::vector<std::string> Names(const std::string& folder) {
  return *FileSystem::Real().List(folder);
}

TEST_CASE("A model's URI keeps its options before the path, and its errors come from calls") {
  ModelDirectory model("s3://b/m/?region=r");
  CHECK(model.path() == "s3://b?region=r/m");
  CHECK(&model.files() == &FileSystem::For("s3://b/m/step-5?region=r"));
  CHECK(&model.files() != &FileSystem::For("s3://b/m"));
  CHECK(&FileSystem::For("m/step-5") == &FileSystem::Real());
  for (const auto& find : {ModelDirectory::Find, ModelDirectory::FindBest}) {
    const Status other = find("gs://b/m").status();
    CHECK(absl::IsInvalidArgument(other));
    CHECK_THAT(std::string(other.message()), Contains("gs:// is not read; use s3://BUCKET"));
    const std::string secret(find("s3://KEY:SECRET@b/m/step-5").status().message());
    CHECK_THAT(secret, Contains("has credentials in its URI") && !Contains("SECRET@"));
  }
}

TEST_CASE("A checkpoint is published with its files, and is the latest one") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("a/model"));
  CHECK(absl::IsNotFound(model.Latest().status()));
  REQUIRE(*model.NewGeneration() == 1);
  CHECK(absl::IsNotFound(model.Latest().status()));
  WriteCheckpoint(model, 20, 1);
  const Checkpoint written = WriteCheckpoint(model, 100, 1);
  CHECK(Names(model.path()) ==
        std::vector<std::string>{"generation-1", "latest", "step-100/", "step-20/"});
  CHECK(ReadText(model.path() + "/latest") == "step-100\n");
  CHECK(Names(written.folder) == std::vector<std::string>{"manifest.json", "note.txt", "rows/"});
  const auto latest = model.Latest();
  REQUIRE(latest.ok());
  CHECK(latest->warnings.empty());
  CHECK(latest->checkpoint.manifest == written.manifest);
  CHECK(latest->checkpoint.checksum == written.checksum);
  CHECK(latest->checkpoint.manifest.generation == 1);
  CHECK(latest->checkpoint.manifest.step == 100);
  REQUIRE(written.manifest.files.size() == 2);
  CHECK(written.manifest.files[1].path == "rows/t/0.safetensors");
  CHECK(written.manifest.files[1].bytes ==
        std::filesystem::file_size(written.Path("rows/t/0.safetensors")));
  CHECK(*model.Steps() == std::vector<uint64_t>{20, 100});
  CHECK(model.Open(20)->manifest.step == 20);
  CHECK_THAT(std::string(model.Open(21).status().message()),
             Contains("there is no checkpoint of step 21; use 20 or 100"));
  CHECK(model.Open(100)->Verify(kSilent)->empty());
}

TEST_CASE("Files that others report must be there as reported") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  auto attempt = model.Begin(5, 1);
  REQUIRE(attempt.ok());
  ModelFile reported = TestRows(10).Write(*attempt->Path("rows/t/0.safetensors"), 10);
  reported.path = "rows/t/0.safetensors";
  Manifest manifest = TestManifest();
  manifest.files = {reported, {"rows/t/1.safetensors", 10, 10}};
  const Status missing = attempt->Publish(manifest).status();
  CHECK(absl::IsDataLoss(missing));
  CHECK_THAT(std::string(missing.message()),
             Contains("rows/t/1.safetensors: a process has written"));
  manifest.files = {reported};
  manifest.files[0].hash ^= 1;
  CHECK_THAT(std::string(attempt->Publish(manifest).status().message()),
             Contains("rows/t/0.safetensors: the file has ") && Contains("the manifest has"));
  CHECK(model.Steps()->empty());
  manifest.files = {reported};
  CHECK(attempt->Publish(manifest).ok());
}

TEST_CASE("A tensor file without checksums is not published") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  auto attempt = model.Begin(5, 1);
  WriteText(*attempt->Path("a.safetensors"), std::string("\2\0\0\0\0\0\0\0{}", 10));
  CHECK_THAT(std::string(attempt->Publish({}).status().message()),
             Contains("a.safetensors: there is no tensor sums"));
}

TEST_CASE("An attempt that is not published leaves nothing") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  {
    auto attempt = model.Begin(5, 1);
    TestRows(10).Write(*attempt->Path("rows/t/0.safetensors"), 10);
    CHECK(Names(model.path()) == std::vector<std::string>{"generation-1", "step-5.tmp-1/"});
  }
  CHECK(Names(model.path()) == std::vector<std::string>{"generation-1"});
}

TEST_CASE("A checkpoint of the same step is replaced") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  WriteCheckpoint(model, 5, 1, 10);
  const Checkpoint second = WriteCheckpoint(model, 5, 1, 20);
  CHECK(model.Latest()->checkpoint.manifest == second.manifest);
  CHECK(model.Open(5)->Verify(kSilent)->empty());
  CHECK(Names(model.path()) == std::vector<std::string>{"generation-1", "latest", "step-5/"});
}

TEST_CASE("An older start completes no checkpoint after a newer one has begun") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  CHECK(*model.NewGeneration() == 1);
  auto old = model.Begin(5, 1);
  auto old_too = model.Begin(6, 1);
  auto old_retry = model.Begin(5, 1, /*retry=*/7);
  CHECK(Names(model.path()) == std::vector<std::string>{"generation-1", "step-5.retry-7.tmp-1/",
                                                        "step-5.tmp-1/", "step-6.tmp-1/"});
  TestRows(10).Write(*old->Path("rows/t/0.safetensors"), 10);
  CHECK(*model.NewGeneration() == 2);
  const Status late = old->Publish({}).status();
  CHECK(absl::IsFailedPrecondition(late));
  CHECK_THAT(std::string(late.message()),
             Contains("generation 2 has begun; generation 1 must end"));
  auto young = model.Begin(5, 2);
  REQUIRE(model.RemoveLeftovers(2).ok());
  CHECK(Names(model.path()) == std::vector<std::string>{"generation-2", "step-5.tmp-2/"});
  CHECK_FALSE(old_too->Publish({}).ok());
  CHECK(young->Publish({}).ok());
  CHECK(*model.NewGeneration() == 3);
}

// Calls `newer` before one of the operations.
class InterruptedFiles : public testing::MemoryFileSystem {
 public:
  StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    return Count(), MemoryFileSystem::Create(path);
  }
  Status MakeFolder(const std::string& path) override {
    return Count(), MemoryFileSystem::MakeFolder(path);
  }
  Status SyncFolder(const std::string& path) override {
    return Count(), MemoryFileSystem::SyncFolder(path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return Count(), MemoryFileSystem::Rename(from, to);
  }
  Status Exchange(const std::string& a, const std::string& b) override {
    return Count(), MemoryFileSystem::Exchange(a, b);
  }
  Status Remove(const std::string& path) override {
    return Count(), MemoryFileSystem::Remove(path);
  }

  void InterruptAfter(int operations, std::function<void()> newer) {
    left_ = operations;
    newer_ = std::move(newer);
  }

 private:
  void Count() {
    if (newer_ && left_-- == 0) std::exchange(newer_, nullptr)();
  }

  int left_ = 0;
  std::function<void()> newer_;
};

TEST_CASE("An older start that is late changes nothing of a newer one") {
  const uint64_t step = GENERATE(30, 20);  // 20 replaces a checkpoint that a delta continues.
  bool interrupted = true;
  for (int operations = 0; interrupted; ++operations) {
    CAPTURE(step, operations);
    InterruptedFiles files;
    ModelDirectory model("/model", files);
    REQUIRE(*model.NewGeneration() == 1);
    const auto publish = [&](uint64_t of, uint64_t generation, const Manifest& manifest = {}) {
      return model.Begin(of, generation)->Publish(manifest);
    };
    REQUIRE(publish(10, 1).ok());
    const StatusOr<Checkpoint> full = publish(20, 1);
    REQUIRE(full.ok());
    Manifest delta;
    delta.parent = {20, full->checksum};
    REQUIRE(publish(25, 1, delta).ok());

    uint64_t chosen = 0;
    uint64_t run = 0;
    interrupted = false;
    files.InterruptAfter(operations, [&] {
      interrupted = true;
      REQUIRE(*model.NewGeneration() == 2);
      REQUIRE(model.RemoveLeftovers(2).ok());
      run = model.KeepRun(222, 2).value();
      chosen = model.Latest()->checkpoint.manifest.step;
      REQUIRE(publish(40, 2).ok());
      REQUIRE(model.SetBest(chosen, 2).ok());
    });
    Status old = model.KeepRun(111, 1).status();
    if (old.ok()) old = publish(step, 1).status();
    if (old.ok()) old = model.SetBest(step, 1);
    if (old.ok()) old = model.KeepNewest(1, {}, 1);
    if (!interrupted) {
      CHECK(old == absl::OkStatus());
      CHECK(operations > 20);
      break;
    }
    CHECK(model.Latest()->checkpoint.manifest.step == 40);
    CHECK(files.ReadFile("/model/latest", 100) == StatusOr<std::string>("step-40\n"));
    CHECK(*model.BestStep() == chosen);
    CHECK(*model.KeptRun() == run);
    for (const uint64_t needed : {chosen, uint64_t{40}}) {
      CAPTURE(needed);
      const auto damage = model.Open(needed)->Verify(kSilent);
      REQUIRE(damage.ok());
      CHECK(damage->empty());
    }
  }
}

TEST_CASE("Files that older starts have not finished are removed") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  CHECK(*model.NewGeneration() == 1);
  CHECK(*model.NewGeneration() == 2);
  for (const char* name : {"step-5.tmp-1", "run.tmp-1", "best.tmp-2", "notes-1"}) {
    WriteText(model.path() + "/" + name, "");
  }
  CHECK(model.RemoveLeftovers(2).ok());
  CHECK(Names(model.path()) == std::vector<std::string>{"best.tmp-2", "generation-2", "notes-1"});
}

TEST_CASE("Starts at the same time do not disturb one another") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  for (int round = 0; round < 50; ++round) {
    std::filesystem::remove_all(path);
    std::vector<Status> ends(4);
    std::vector<uint64_t> runs(4);
    std::vector<uint64_t> generations(4);
    std::vector<std::thread> starts;
    for (size_t i = 0; i < ends.size(); ++i) {
      starts.emplace_back([&, i] {
        ModelDirectory model(path);
        ends[i] = [&]() -> Status {
          SIMURGH_ASSIGN_OR_RETURN(generations[i], model.NewGeneration());
          SIMURGH_ASSIGN_OR_RETURN(runs[i], model.KeepRun(i + 1, generations[i]));
          // An attempt, which the newer starts remove as well.
          SIMURGH_ASSIGN_OR_RETURN(CheckpointAttempt attempt, model.Begin(5, generations[i]));
          for (const char* name : {"/a", "/b", "/c", "/d"}) {
            std::error_code removed;
            std::filesystem::create_directory(attempt.folder() + name, removed);
          }
          SIMURGH_RETURN_IF_ERROR(model.RemoveLeftovers(generations[i]));
          return model.SetBest(i, generations[i]);
        }();
      });
    }
    for (std::thread& start : starts) start.join();
    const size_t newest = std::ranges::max_element(generations) - generations.begin();
    CAPTURE(round, generations[newest]);
    CHECK(ends[newest] == absl::OkStatus());
  }
}

TEST_CASE("A generation that no run's number can hold is refused") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  const std::string name = GENERATE("generation-16777215", "generation-18446744073709551615");
  CHECK(*model.NewGeneration() == 1);
  WriteText(model.path() + "/" + name, "");
  const Status refused = model.NewGeneration().status();
  CHECK_THAT(std::string(refused.message()), Contains(name) && Contains("remove the file"));
}

TEST_CASE("The newest checkpoint is of the highest generation, then of the highest step") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  WriteCheckpoint(model, 10, 1);
  WriteCheckpoint(model, 30, 1);
  REQUIRE(*model.NewGeneration() == 2);
  WriteCheckpoint(model, 20, 2);  // Resumed from step 10.
  CHECK(model.Latest()->checkpoint.manifest.step == 20);
}

void FlipBit(const std::string& path, size_t at) {
  std::string content = ReadText(path);
  content.at(at) ^= 1;
  WriteText(path, content);
}

TEST_CASE("A checkpoint that is set aside is the newest no longer, unless there is no other") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  WriteCheckpoint(model, 10, 1);
  WriteCheckpoint(model, 20, 1);
  REQUIRE(model.SetAside(20).ok());
  CHECK(model.Latest()->checkpoint.manifest.step == 10);
  CHECK(std::filesystem::exists(folder.Path("model/step-20.damaged/manifest.json")));
  REQUIRE(model.RemoveLeftovers(model.NewGeneration().value()).ok());
  CHECK(std::filesystem::exists(folder.Path("model/step-20.damaged/manifest.json")));
  WriteCheckpoint(model, 20, 2);
  CHECK(model.SetAside(20).ok());
  CHECK(absl::IsFailedPrecondition(model.SetAside(10)));
  CHECK(model.Latest()->checkpoint.manifest.step == 10);
}

TEST_CASE("A damaged newest checkpoint gives a warning, and the next older one is taken") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  WriteCheckpoint(model, 10, 1);
  CheckpointAttempt attempt = model.Begin(20, 1).value();
  TestRows(100).Write(attempt.Path("rows/t/0.safetensors").value(), 1000);
  TestRows(3).Write(attempt.Path("dense.safetensors").value(), 1000);
  WriteText(attempt.Path("note.txt").value(), "step 20");
  Manifest complete = TestManifest();
  complete.parent.reset();
  complete.files.clear();
  const Checkpoint newest = attempt.Publish(std::move(complete)).value();
  const std::string manifest = newest.Path("manifest.json");
  const std::string rows = newest.Path("rows/t/0.safetensors");
  const std::string text = ReadText(manifest);
  std::string expected;
  SECTION("a manifest that is cut off") {
    WriteText(manifest, text.substr(0, text.size() / 2));
    expected = "step-20/manifest.json: the text is not JSON";
  }
  SECTION("no manifest") {
    std::filesystem::remove(manifest);
    expected = "manifest.json: No such file or directory";
  }
  SECTION("the manifest of another step") {
    WriteText(manifest, ReadText(folder.Path("model/step-10/manifest.json")));
    expected = "step-20/manifest.json: step: the folder is for step 20 and the manifest for 10";
  }
  SECTION("a shortened file") {
    std::filesystem::resize_file(rows, 100);
    expected = rows + ": it has 100 bytes and a header of ";
  }
  SECTION("a bit of a header") {
    FlipBit(rows, 40);
    expected = rows + ": ";
  }
  SECTION("a bit of a file without rows") {
    FlipBit(newest.Path("note.txt"), 2);
    expected = "note.txt: the file has 7 bytes with the hash ";
  }
  SECTION("a bit of the dense network") {
    const std::string dense = newest.Path("dense.safetensors");
    FlipBit(dense, std::filesystem::file_size(dense) - 1);
    expected = dense + ": tensor ";
  }
  SECTION("no file") {
    std::filesystem::remove(rows);
    expected = rows + ": No such file or directory";
  }
  const auto latest = model.Latest();
  INFO(latest.status());
  REQUIRE(latest.ok());
  CHECK(latest->checkpoint.manifest.step == 10);
  REQUIRE(latest->warnings.size() == 1);
  CHECK_THAT(latest->warnings[0], Contains(expected));
  std::filesystem::remove(folder.Path("model/step-10/manifest.json"));
  const Status none = model.Latest().status();
  CHECK(absl::IsDataLoss(none));
  CHECK_THAT(std::string(none.message()),
             Contains("all checkpoints are damaged: ") && Contains(expected));
}

TEST_CASE("A pipe in place of a file is damage, and its writer is not waited for") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  const Checkpoint old = WriteCheckpoint(model, 20, 1);
  const Checkpoint damaged = WriteCheckpoint(model, 100, 1);
  const std::string file = GENERATE("manifest.json", "note.txt", "rows/t/0.safetensors");
  CAPTURE(file);
  const std::string path = damaged.Path(file);
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), S_IRUSR | S_IWUSR) == 0);
  // With a writer, a program that waits for one fails and does not hang.
  const FileDescriptor writer(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(writer.valid());
  const auto latest = model.Latest();
  REQUIRE(latest.ok());
  CHECK(latest->checkpoint.manifest.step == old.manifest.step);
  CHECK_THAT(latest->warnings.at(0), Contains(path + ": not a regular file"));
}

TEST_CASE("A newer format is an error and not damage") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  WriteCheckpoint(model, 10, 1);
  const Checkpoint newest = WriteCheckpoint(model, 20, 1);
  WriteText(newest.Path("manifest.json"), R"({"format_version": 9})");
  CHECK(absl::IsFailedPrecondition(model.Latest().status()));
}

TEST_CASE("Verify names file, tensor and rows of each damage") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  const Checkpoint checkpoint = WriteCheckpoint(model, 10, 1, 70'000);
  const std::string rows = checkpoint.Path("rows/t/0.safetensors");
  std::string bad = ReadText(rows);
  bad.back() ^= 1;
  WriteText(rows, bad);
  WriteText(checkpoint.Path("note.txt"), "step 11");
  std::vector<std::string> files;
  uint64_t most = 0;
  const auto damage =
      model.Open(10)->Verify([&](const std::string& file, uint64_t bytes, uint64_t of) {
        if (bytes == 0) files.push_back(file);
        CHECK(bytes <= of);
        most = std::max(most, bytes);
      });
  REQUIRE(damage->size() == 2);
  CHECK(files == std::vector<std::string>{"note.txt", "rows/t/0.safetensors"});
  CHECK(most > 70'000);
  CHECK_THAT((*damage)[0], Contains("note.txt: the file has 7 bytes with the hash "));
  CHECK_THAT((*damage)[1], Contains(rows + ": tensor half, rows 65536 to 69999"));
}

TEST_CASE("The newest checkpoints, exceptions and parents of deltas are kept") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  for (const uint64_t step : {1, 2, 3, 4}) WriteCheckpoint(model, step, 1, 1);
  for (const auto& [step, parent] : {std::pair(5, 2), {6, 5}}) {
    auto attempt = model.Begin(step, 1);
    Manifest manifest;
    manifest.parent = {static_cast<uint64_t>(parent), 0};
    REQUIRE(attempt->Publish(manifest).ok());
  }
  REQUIRE(model.KeepNewest(1, {3, 99}, 1).ok());
  CHECK(*model.Steps() == std::vector<uint64_t>{2, 3, 5, 6});
  std::filesystem::create_directory(folder.Path("model/step-1.removed"));
  std::filesystem::create_directory(folder.Path("model/step-7"));
  REQUIRE(model.RemoveLeftovers(1).ok());
  CHECK(Names(model.path()) == std::vector<std::string>{"generation-1", "latest", "step-2/",
                                                        "step-3/", "step-5/", "step-6/",
                                                        "step-7/"});
  REQUIRE(model.KeepNewest(0, {}, 1).ok());
  CHECK(*model.Steps() == std::vector<uint64_t>{7});  // Damaged, for a person to look at.
}

TEST_CASE("A checkpoint that is replaced takes the deltas along that continue it") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  std::map<uint64_t, uint64_t> checksums;
  const auto publish = [&](uint64_t step, uint64_t parent, uint64_t generation) {
    Manifest manifest;
    if (parent > 0) manifest.parent = {parent, checksums.at(parent)};
    const auto done = model.Begin(step, generation)->Publish(manifest);
    REQUIRE(done.ok());
    checksums[step] = done->checksum;
  };
  publish(1, 0, 1);
  publish(2, 1, 1);
  publish(3, 2, 1);
  publish(4, 3, 1);
  publish(5, 0, 1);
  publish(6, 5, 1);
  // Continues from step 1.
  REQUIRE(*model.NewGeneration() == 2);
  publish(2, 0, 2);
  const std::vector<uint64_t> left{1, 2, 5, 6};
  CHECK(*model.Steps() == left);
  for (const uint64_t step : left) CHECK(model.Open(step)->Verify(kSilent)->empty());
  CHECK(model.Latest()->checkpoint.manifest.step == 2);
}

TEST_CASE("A file names the best checkpoint") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  CHECK(*model.BestStep() == std::nullopt);
  REQUIRE(model.SetBest(1200, 1).ok());
  CHECK(*model.BestStep() == 1200);
  REQUIRE(model.SetBest(std::nullopt, 1).ok());
  CHECK(*model.BestStep() == std::nullopt);
  CHECK(Names(model.path()) == std::vector<std::string>{"generation-1"});
  for (const std::string text : {"", "1200\n", "step-12 00\n", "step-1200"}) {
    WriteText(model.path() + "/best", text);
    CHECK_THAT(std::string(model.BestStep().status().message()), Catch::Contains("/best: "));
  }
}

TEST_CASE("A model keeps the number of its run from its first start on") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  REQUIRE(ModelDirectory(path).NewGeneration().ok());
  CHECK(*ModelDirectory(path).KeepRun(0xfedcba9876543210ULL, 1) == 0xfedcba9876543210ULL);
  REQUIRE(ModelDirectory(path).RemoveLeftovers(1).ok());
  CHECK(*ModelDirectory(path).KeepRun(5, 2) == 0xfedcba9876543210ULL);
  for (const std::string text :
       {"", "12", "zz\n", "0123456789abcdef0123456789abcdef0123456789\n"}) {
    WriteText(path + "/run", text);
    const Status damaged = ModelDirectory(path).KeepRun(5, 2).status();
    CHECK_FALSE(damaged.ok());
    CHECK_THAT(std::string(damaged.message()), Catch::Contains("/run"));
  }
}

}  // namespace
}  // namespace simurgh
