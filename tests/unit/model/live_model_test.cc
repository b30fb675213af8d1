// Models whose files change or cannot be read while a program reads them.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/hash.h"
#include "model/model_report.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/model_files.h"

namespace simurgh {
namespace {

using Catch::Contains;
using testing::ReadText;
using testing::WriteCheckpoint;
using testing::WriteText;

const Checkpoint::Progress kSilent = [](const std::string&, uint64_t, uint64_t) {};

// Calls before_open(path) before a file is opened. An error is the result.
class WatchedFiles : public testing::MemoryFileSystem {
 public:
  StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    if (before_open) SIMURGH_RETURN_IF_ERROR(before_open(path));
    return MemoryFileSystem::Open(path);
  }

  std::function<Status(const std::string& path)> before_open;
};

TEST_CASE("A file that cannot be read is not damage, and keeps all checkpoints") {
  WatchedFiles files;
  ModelDirectory model("/model", files);
  REQUIRE(model.NewGeneration().ok());
  WriteCheckpoint(model, 80, 1, 100, files);
  const Checkpoint newest = WriteCheckpoint(model, 100, 1, 100, files);
  const std::string path =
      newest.Path(GENERATE("manifest.json", "note.txt", "rows/t/0.safetensors"));
  const int error = GENERATE(EACCES, EIO, ESTALE, EMFILE);
  CAPTURE(path, error);
  files.before_open = [&](const std::string& opened) {
    return opened == path ? ErrnoStatus(error, "cannot open " + path) : absl::OkStatus();
  };
  const Status refused = model.Latest().status();
  CHECK(refused.code() == absl::ErrnoToStatusCode(error));
  CHECK_THAT(std::string(refused.message()),
             Contains("cannot open " + path) && Contains("may be sound"));
  const auto unread = model.Open(100);
  CHECK((unread.ok() ? unread->Verify(kSilent).status() : unread.status()).code() ==
        refused.code());
  model.KeepNewest(1, {}, 1).IgnoreError();
  CHECK(model.Steps()->back() == 100);
  if (path.ends_with("manifest.json")) CHECK(*model.Steps() == std::vector<uint64_t>{80, 100});
  files.before_open = nullptr;
  const auto latest = model.Latest();
  REQUIRE(latest.ok());
  CHECK(latest->checkpoint.manifest.step == 100);
  CHECK(latest->warnings.empty());
}

// A training that saves a checkpoint and removes the one before it.
struct Training {
  explicit Training(WatchedFiles& file_system) : files(file_system) {
    REQUIRE(model.NewGeneration().ok());
    Save();
  }

  void Save() {
    const auto watched = std::exchange(files.before_open, nullptr);
    WriteCheckpoint(model, ++step, 1, 100, files);
    REQUIRE(model.SetBest(step, 1).ok());
    REQUIRE(model.KeepNewest(1, {}, 1).ok());
    REQUIRE(model.Steps()->size() == 1);
    files.before_open = watched;
  }

  WatchedFiles& files;
  ModelDirectory model{"/model", files};
  uint64_t step = 0;
};

TEST_CASE("A checkpoint that is removed while it is looked for is not damaged") {
  for (int at = 1; at < 20; ++at) {
    CAPTURE(at);
    WatchedFiles files;
    Training training(files);
    int opened = 0;
    files.before_open = [&](const std::string&) {
      if (++opened == at) training.Save();
      return absl::OkStatus();
    };
    const auto found =
        ModelDirectory::FindHeld([&] { return ModelDirectory("/model", files).Latest(); });
    INFO(found.status());
    REQUIRE(found.ok());
    CHECK(found->warnings.empty());
    // What is held stays whole, too.
    training.Save();
    training.Save();
    const auto damage = found->checkpoint.Verify(kSilent);
    REQUIRE(damage.ok());
    CHECK(damage->empty());
    CHECK(found->checkpoint.ReadText("note.txt", 100).ok());
    CHECK(DescribeCheckpoint(found->checkpoint).ok());
    const Status gone = training.model.Open(found->checkpoint.manifest.step).status();
    CHECK(absl::IsNotFound(gone));
    CHECK_THAT(std::string(gone.message()), Contains("there is no checkpoint of step "));
  }
}

TEST_CASE("A missing file of a checkpoint that stays is damage") {
  WatchedFiles files;
  Training training(files);
  const std::string note = training.model.Open(1)->Path("note.txt");
  REQUIRE(files.Remove(note).ok());
  const auto held = training.model.Open(1)->Hold();
  REQUIRE(held.ok());
  CHECK_THAT(held->Verify(kSilent)->at(0), Contains(note));
  CHECK(absl::IsDataLoss(training.model.Latest().status()));
}

TEST_CASE("A training that never rests ends the search for a checkpoint, without damage") {
  WatchedFiles files;
  Training training(files);
  files.before_open = [&](const std::string& path) {
    if (path.ends_with("note.txt")) training.Save();
    return absl::OkStatus();
  };
  const auto found = ModelDirectory::FindHeld([&]() -> StatusOr<ModelDirectory::Newest> {
    return ModelDirectory::Newest{training.model.Open(training.step).value(), {}};
  });
  CHECK(absl::IsAborted(found.status()));
}

TEST_CASE("The name of the best checkpoint has a checksum") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  REQUIRE(model.SetBest(1200, 1).ok());
  const std::string path = model.path() + "/best";
  const std::string text = ReadText(path);
  CHECK(text ==
        absl::StrCat("step-1200\n", absl::Hex(HashBytes("step-1200\n"), absl::kZeroPad16), "\n"));
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    WriteText(path, flipped);
    CHECK(absl::IsDataLoss(model.BestStep().status()));
  }
  WriteText(path, "step-1200\n");  // Of an older version, or of a person.
  CHECK(*model.BestStep() == 1200);
}

TEST_CASE("Edited manifests are sealed again, and the deltas that continue them") {
  const TemporaryFolder folder;
  ModelDirectory model(folder.Path("model"));
  REQUIRE(model.NewGeneration().ok());
  const Checkpoint full = WriteCheckpoint(model, 10, 1);
  CheckpointAttempt attempt = model.Begin(20, 1).value();
  WriteText(attempt.Path("note.txt").value(), "step 20");
  Manifest manifest = testing::TestManifest();
  manifest.parent = {10, full.checksum};
  manifest.files.clear();
  REQUIRE(attempt.Publish(std::move(manifest)).ok());
  CHECK(model.Seal()->empty());

  const std::string path = full.Path("manifest.json");
  std::string text = ReadText(path);
  const size_t at = text.find("\"wire\": \"bf16\"");
  REQUIRE(at != text.npos);
  WriteText(path, text.replace(at, 14, "\"wire\": \"f16\""));
  CHECK(absl::IsDataLoss(model.Open(10).status()));
  CHECK(*model.Seal() == std::vector<uint64_t>{10, 20});
  CHECK(model.Open(10)->manifest.extra.at("wire") == "f16");
  CHECK(model.Open(20)->Chain()->size() == 2);
  CHECK(model.Seal()->empty());

  WriteText(path, "{}");
  CHECK(absl::IsDataLoss(model.Seal().status()));
}

}  // namespace
}  // namespace simurgh
