// A model's folder in a bucket: src/model/bucket_files.h.

#include "model/bucket_files.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include <catch2/catch.hpp>

#include "base/check.h"
#include "base/random.h"
#include "tests/support/memory_store.h"
#include "tests/support/skip.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/model_files.h"

namespace simurgh {
namespace {

using Catch::Contains;
using testing::MemoryBucket;
using testing::MemoryStore;
using testing::TestRows;
using testing::WriteCheckpoint;

constexpr size_t kPart = BucketFiles::kPartBytes;
constexpr char kRoot[] = "s3://b/m";
const auto kQuiet = [](const std::string&, uint64_t, uint64_t) {};

// A program's view of a bucket.
struct Program {
  explicit Program(const std::shared_ptr<MemoryBucket>& bucket) {
    auto own = std::make_unique<MemoryStore>(bucket);
    store = own.get();
    files.emplace(kRoot, StatusOr<std::unique_ptr<ObjectStore>>(std::move(own)));
    model.emplace(kRoot, *files);
  }

  MemoryStore* store = nullptr;
  std::optional<BucketFiles> files;
  std::optional<ModelDirectory> model;
};

std::vector<std::string> KeysOf(MemoryBucket& bucket) {
  const MutexLock lock(bucket.mutex);
  std::vector<std::string> keys;
  for (const auto& [key, entry] : bucket.objects) keys.push_back(key);
  return keys;
}

size_t UploadsIn(MemoryBucket& bucket) {
  const MutexLock lock(bucket.mutex);
  return bucket.uploads.size();
}

// Turns a bucket with a checkpoint of step 5 into a copy of a folder of a disk.
void UseLayoutOfDisk(MemoryBucket& bucket) {
  const MutexLock lock(bucket.mutex);
  auto objects = std::exchange(bucket.objects, {});
  objects.erase("names.json");
  for (auto& [key, entry] : objects) {
    bucket.objects["step-5" + key.substr(key.find('/'))] = entry;
  }
}

std::shared_ptr<MemoryBucket> CopyOf(MemoryBucket& bucket) {
  auto copy = std::make_shared<MemoryBucket>();
  const MutexLock lock(bucket.mutex);
  const MutexLock copy_lock(copy->mutex);
  copy->objects = bucket.objects;
  copy->uploads = bucket.uploads;
  copy->changes = bucket.changes;
  return copy;
}

TEST_CASE("A checkpoint in a bucket is found by another program") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program writer(bucket);
  REQUIRE(*writer.model->NewGeneration() == 1);
  REQUIRE(writer.model->RemoveLeftovers(1).ok());
  const Checkpoint written = WriteCheckpoint(*writer.model, 5, 1, 1000, *writer.files);
  REQUIRE(writer.model->SetBest(5, 1).ok());

  Program reader(bucket);
  const auto latest = reader.model->Latest();
  REQUIRE(latest.ok());
  CHECK(latest->checkpoint.manifest == written.manifest);
  CHECK(latest->checkpoint.folder == "s3://b/m/step-5");
  CHECK(latest->checkpoint.Verify(kQuiet)->empty());
  CHECK(*reader.model->BestStep() == 5);
  CHECK(*reader.model->LatestStep() == 5);
  CHECK(*reader.model->Steps() == std::vector<uint64_t>{5});
  CHECK(reader.model->Open(6).status().code() == absl::StatusCode::kNotFound);
  CHECK(*reader.files->List(kRoot) ==
        std::vector<std::string>{"best", "generation-1", "latest", "step-5/"});
  CHECK(*reader.files->List("s3://b/m/step-5") ==
        std::vector<std::string>{"manifest.json", "note.txt", "rows/"});

  // A person writes the file.
  REQUIRE(reader.store->Put("pin", "step-5\n", {}).ok());
  CHECK(*reader.model->PinnedStep() == 5);
}

TEST_CASE("A folder of a bucket without a model is not found") {
  Program reader(std::make_shared<MemoryBucket>());
  CHECK(absl::IsNotFound(reader.model->Latest().status()));
  CHECK(absl::IsNotFound(reader.files->List(kRoot).status()));
  CHECK(*reader.model->PinnedStep() == std::nullopt);
}

TEST_CASE("A replaced checkpoint leaves no objects") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program writer(bucket);
  REQUIRE(*writer.model->NewGeneration() == 1);
  WriteCheckpoint(*writer.model, 5, 1, 10, *writer.files);
  const size_t objects = KeysOf(*bucket).size();
  const Checkpoint second = WriteCheckpoint(*writer.model, 5, 1, 20, *writer.files);
  CHECK(KeysOf(*bucket).size() == objects);
  CHECK(writer.model->Latest()->checkpoint.manifest == second.manifest);
  WriteCheckpoint(*writer.model, 6, 1, 20, *writer.files);
  REQUIRE(writer.model->KeepNewest(1, {}, 1).ok());
  CHECK(KeysOf(*bucket).size() == objects);
  CHECK(*writer.model->Steps() == std::vector<uint64_t>{6});
  {
    const auto attempt = writer.model->Begin(7, 1);
  }
  CHECK(KeysOf(*bucket).size() == objects);
  CHECK(*writer.model->Steps() == std::vector<uint64_t>{6});
}

TEST_CASE("A folder in another one is removed with its objects") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program program(bucket);
  REQUIRE(program.model->NewGeneration().ok());
  WriteCheckpoint(*program.model, 5, 1, 10, *program.files);
  REQUIRE(program.files->MakeFolder("s3://b/m/removed.tmp-1").ok());
  REQUIRE(program.files->Rename("s3://b/m/step-5", "s3://b/m/removed.tmp-1/step-5").ok());
  REQUIRE(program.files->Remove("s3://b/m/removed.tmp-1/step-5").ok());
  CHECK(KeysOf(*bucket) == std::vector<std::string>{"names.json"});
}

TEST_CASE("The folder of a model is removed with all its objects") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program program(bucket);
  REQUIRE(program.model->NewGeneration().ok());
  WriteCheckpoint(*program.model, 5, 1, 10, *program.files);
  REQUIRE(program.store->Put("history.jsonl", "{}", {}).ok());
  REQUIRE(program.files->Remove(kRoot).ok());
  CHECK(KeysOf(*bucket).empty());
  CHECK(absl::IsNotFound(program.files->List(kRoot).status()));
}

TEST_CASE("An older start that is late changes nothing of a newer one in a bucket") {
  const uint64_t step = GENERATE(30, 20);  // 20 replaces a checkpoint that a delta continues.
  bool interrupted = true;
  for (int requests = 0; interrupted; ++requests) {
    CAPTURE(step, requests);
    const auto bucket = std::make_shared<MemoryBucket>();
    Program old(bucket);
    Program young(bucket);
    REQUIRE(*old.model->NewGeneration() == 1);
    const auto publish = [&](Program& program, uint64_t of, uint64_t generation,
                             const Manifest& manifest = {}) -> StatusOr<Checkpoint> {
      SIMURGH_ASSIGN_OR_RETURN(auto attempt, program.model->Begin(of, generation));
      return attempt.Publish(manifest);
    };
    REQUIRE(publish(old, 10, 1).ok());
    const StatusOr<Checkpoint> full = publish(old, 20, 1);
    REQUIRE(full.ok());
    Manifest delta;
    delta.parent = {20, full->checksum};
    REQUIRE(publish(old, 25, 1, delta).ok());

    uint64_t chosen = 0;
    uint64_t run = 0;
    interrupted = false;
    int left = requests;
    old.store->before = [&](const std::string& /*request*/) -> Status {
      if (interrupted || left-- > 0) return absl::OkStatus();
      interrupted = true;
      REQUIRE(*young.model->NewGeneration() == 2);
      REQUIRE(young.model->RemoveLeftovers(2).ok());
      run = young.model->KeepRun(222, 2).value();
      chosen = young.model->Latest()->checkpoint.manifest.step;
      REQUIRE(publish(young, 40, 2).ok());
      REQUIRE(young.model->SetBest(chosen, 2).ok());
      return absl::OkStatus();
    };
    Status late = old.model->KeepRun(111, 1).status();
    if (late.ok()) late = publish(old, step, 1).status();
    if (late.ok()) late = old.model->SetBest(step, 1);
    if (late.ok()) late = old.model->KeepNewest(1, {}, 1);
    old.store->before = nullptr;
    if (!interrupted) {
      CHECK(late == absl::OkStatus());
      CHECK(requests > 20);
      break;
    }
    CHECK(young.model->Latest()->checkpoint.manifest.step == 40);
    CHECK(*young.model->LatestStep() == 40);
    CHECK(*young.model->BestStep() == chosen);
    CHECK(*young.model->KeptRun() == run);
    for (const uint64_t needed : {chosen, uint64_t{40}}) {
      CAPTURE(needed);
      const auto damage = young.model->Open(needed)->Verify(kQuiet);
      REQUIRE(damage.ok());
      CHECK(damage->empty());
    }
  }
}

// Writes a checkpoint of four rows; its manifest's samples tell it from another one of its step.
Status Save(Program& program, uint64_t step, uint64_t generation, uint64_t samples) {
  SIMURGH_ASSIGN_OR_RETURN(CheckpointAttempt attempt, program.model->Begin(step, generation));
  SIMURGH_ASSIGN_OR_RETURN(const std::string path, attempt.Path("rows/t/0.safetensors"));
  SIMURGH_ASSIGN_OR_RETURN(
      TensorFileWriter writer,
      TensorFileWriter::Create(path, {{"id", DType::kU64, {4}}}, {}, *program.files));
  const std::vector<uint64_t> ids(4, samples);
  SIMURGH_RETURN_IF_ERROR(writer.Write("id", testing::BytesOf(ids)));
  SIMURGH_RETURN_IF_ERROR(writer.Finish().status());
  Manifest manifest;
  manifest.samples = samples;
  return attempt.Publish(std::move(manifest)).status();
}

struct Outcome {
  bool published = false;
  bool done = false;
  int requests = 0;
};

// A start that finds two checkpoints, writes another one and removes the older ones. It ends before
// the request number `cut`, or after it if `has_effect`.
Outcome StartWithEnd(const std::shared_ptr<MemoryBucket>& bucket, uint64_t new_step, int cut,
                     bool has_effect) {
  Program program(bucket);
  Outcome outcome;
  const auto end = [&](bool is_after) -> Status {
    const bool has_ended =
        outcome.requests > cut || (outcome.requests == cut && is_after == has_effect);
    return has_ended ? absl::UnavailableError("ended") : absl::OkStatus();
  };
  program.store->before = [&](const std::string& /*request*/) { return end(false); };
  program.store->after = [&](const std::string& /*request*/) {
    const Status ended = end(true);
    ++outcome.requests;
    return ended;
  };
  outcome.done = [&] {
    if (!program.model->NewGeneration().ok() || !program.model->KeepRun(5, 2).ok()) return false;
    if (!program.model->RemoveLeftovers(2).ok()) return false;
    outcome.published = Save(program, new_step, 2, 20).ok();
    return outcome.published && program.model->KeepNewest(1, {}, 2).ok();
  }();
  return outcome;
}

TEST_CASE("After each request to the store the newest checkpoint is the old or the new one") {
  const uint64_t new_step = GENERATE(20, 10);  // 10 replaces the old checkpoint.
  const bool has_effect = GENERATE(false, true);
  const auto begin = std::make_shared<MemoryBucket>();
  {
    Program first(begin);
    REQUIRE(*first.model->NewGeneration() == 1);
    REQUIRE(Save(first, 9, 1, 9).ok());
    REQUIRE(Save(first, 10, 1, 10).ok());
    // What an interrupted save leaves.
    REQUIRE(first.files->MakeFolder("s3://b/m/step-11.tmp-1").ok());
    REQUIRE(first.files->WriteFile("s3://b/m/step-11.tmp-1/note.txt", "").ok());
    REQUIRE(first.store->Put("step-8.0123456789abcdef0/rows/t/0.safetensors", "lost", {}).ok());
    REQUIRE(first.store->BeginUpload("step-8.0123456789abcdef0/rows/t/1.safetensors").ok());
    REQUIRE(first.store->Put("notes/of-people.txt", "kept", {}).ok());
  }
  constexpr int kNever = 1 << 30;
  const int requests = StartWithEnd(CopyOf(*begin), new_step, kNever, false).requests;
  REQUIRE(requests > 30);
  for (int cut = 0; cut < requests; ++cut) {
    CAPTURE(new_step, has_effect, cut, requests);
    const auto bucket = CopyOf(*begin);
    const Outcome outcome = StartWithEnd(bucket, new_step, cut, has_effect);
    CHECK_FALSE(outcome.done);
    Program next(bucket);
    const auto latest = next.model->Latest();
    INFO(latest.status());
    REQUIRE(latest.ok());
    CHECK(latest->warnings.empty());
    const Manifest& manifest = latest->checkpoint.manifest;
    CHECK((manifest.samples == 20 || (manifest.samples == 10 && !outcome.published)));
    CHECK(latest->checkpoint.Verify(kQuiet)->empty());
    const auto generation = next.model->NewGeneration();
    REQUIRE(generation.ok());
    CHECK(*generation > manifest.generation);
    const auto run = next.model->KeepRun(6, *generation);
    CHECK((run == StatusOr<uint64_t>(5) || (run == StatusOr<uint64_t>(6) && !outcome.published)));
    REQUIRE(next.model->RemoveLeftovers(*generation).ok());
    REQUIRE(Save(next, 30, *generation, 30).ok());
    REQUIRE(next.model->KeepNewest(1, {}, *generation).ok());
    CHECK(*next.files->List(kRoot) ==
          std::vector<std::string>{"generation-" + std::to_string(*generation), "latest", "run",
                                   "step-30/"});
    // The objects are those of the checkpoint, the names and what is not the model's.
    const std::vector<std::string> keys = KeysOf(*bucket);
    CHECK(keys.size() == 4);
    CHECK(std::ranges::count(keys, "notes/of-people.txt") == 1);
    CHECK(UploadsIn(*bucket) == 0);
  }
}

TEST_CASE("A key that cannot list uploads can train") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program program(bucket);
  program.store->before = [](const std::string& request) {
    return request == "UPLOADS" ? absl::PermissionDeniedError("no") : absl::OkStatus();
  };
  REQUIRE(*program.model->NewGeneration() == 1);
  REQUIRE(program.store->Put("step-8.0123456789abcdef0/a", "lost", {}).ok());
  CHECK(program.model->RemoveLeftovers(1).ok());
  CHECK(KeysOf(*bucket) == std::vector<std::string>{"names.json"});
}

TEST_CASE("A change of names whose answer is lost is done once") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program program(bucket);
  uint64_t changes = 0;
  int lost = 0;
  program.store->after = [&](const std::string& request) -> Status {
    const MutexLock lock(bucket->mutex);
    const bool has_effect = std::exchange(changes, bucket->changes) != bucket->changes;
    if (request != "PUT names.json" || !has_effect) return absl::OkStatus();
    ++lost;
    return absl::UnavailableError("no answer");
  };
  REQUIRE(*program.model->NewGeneration() == 1);
  REQUIRE(Save(program, 5, 1, 50).ok());
  REQUIRE(*program.model->NewGeneration() == 2);
  CHECK(program.model->Latest()->checkpoint.manifest.samples == 50);
  CHECK(lost >= 5);
}

TEST_CASE("Starts at the same time get numbers of their own in a bucket") {
  const auto bucket = std::make_shared<MemoryBucket>();
  constexpr size_t kStarts = 8;
  std::vector<uint64_t> generations(kStarts);
  std::vector<uint64_t> runs(kStarts);
  {
    std::vector<std::jthread> starts;
    for (size_t i = 0; i < kStarts; ++i) {
      starts.emplace_back([&, i] {
        Program program(bucket);
        generations[i] = program.model->NewGeneration().value_or(0);
        runs[i] = program.model->KeepRun(i + 1, generations[i]).value_or(0);
      });
    }
  }
  std::ranges::sort(generations);
  CHECK(generations.front() > 0);
  CHECK(std::ranges::adjacent_find(generations) == generations.end());
  const uint64_t kept = *Program(bucket).model->KeptRun();
  for (const uint64_t run : runs) CHECK((run == 0 || run == kept));
}

TEST_CASE("A file of many parts is written in any order") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program program(bucket);
  REQUIRE(program.model->NewGeneration().ok());
  auto attempt = program.model->Begin(5, 1);
  REQUIRE(attempt.ok());
  // Tensors of 32, 24 and 8 MB: their borders lie in parts.
  const uint64_t rows = 1'000'000;
  const TestRows written(rows, 6);
  const std::string path = *attempt->Path("rows/t/0.safetensors");
  const ModelFile file = written.Write(path, 30'000, *program.files);
  CHECK(UploadsIn(*bucket) == 0);

  auto reader = TensorFileReader::Open(path, *program.files);
  REQUIRE(reader.ok());
  CHECK(reader->file() == file);
  std::vector<float> weights(written.weights.size());
  const uint64_t step = GENERATE(uint64_t{65'536}, uint64_t{1'000'000});
  for (uint64_t row = 0; row < rows; row += step) {
    const uint64_t count = std::min(step, rows - row);
    REQUIRE(reader
                ->Read("weights", row, count,
                       std::as_writable_bytes(std::span(weights).subspan(row * 6, count * 6)))
                .ok());
  }
  CHECK(weights == written.weights);
  const auto mapped = reader->Map("id");
  REQUIRE(mapped.ok());
  CHECK(std::memcmp(mapped->get(), written.id.data(), rows * sizeof(uint64_t)) == 0);
}

TEST_CASE("A file that is not synced does not exist") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program program(bucket);
  REQUIRE(program.model->NewGeneration().ok());
  REQUIRE(program.files->MakeFolder("s3://b/m/step-5.tmp-1").ok());
  const std::string path = "s3://b/m/step-5.tmp-1/a";
  const size_t objects = KeysOf(*bucket).size();
  const std::vector<std::byte> bytes(3 * BucketFiles::kPartBytes + 1);
  {
    auto file = program.files->Create(path);
    REQUIRE((*file)->Allocate(bytes.size()).ok());
    REQUIRE((*file)->Write(0, bytes).ok());
  }
  CHECK(UploadsIn(*bucket) == 0);
  CHECK(KeysOf(*bucket).size() == objects);
  CHECK(absl::IsNotFound(program.files->Open(path).status()));

  // A part that the store refuses fails the file.
  program.store->before = [](const std::string& request) {
    return request.starts_with("PART 2") ? absl::PermissionDeniedError("no") : absl::OkStatus();
  };
  auto file = program.files->Create(path);
  Status status = (*file)->Write(0, bytes);
  if (status.ok()) status = (*file)->Sync();
  CHECK(absl::IsPermissionDenied(status));
  file->reset();
  program.store->before = nullptr;
  CHECK(UploadsIn(*bucket) == 0);
  CHECK(absl::IsNotFound(program.files->Open(path).status()));
}

TEST_CASE("Files of all sizes are read as they were written") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program program(bucket);
  REQUIRE(program.model->NewGeneration().ok());
  REQUIRE(program.files->MakeFolder("s3://b/m/step-5.tmp-1").ok());
  const size_t size = GENERATE(size_t{0}, size_t{1}, size_t{131'072}, size_t{131'073}, kPart - 1,
                               kPart, kPart + 1, 2 * kPart, 2 * kPart + 17);
  CAPTURE(size);
  Random random(size + 1);
  std::string content(size, '\0');
  for (size_t i = 0; i + 8 <= size; i += 8) {
    const uint64_t bits = random();
    std::memcpy(content.data() + i, &bits, sizeof(bits));
  }
  {
    auto file = program.files->Create("s3://b/m/step-5.tmp-1/a");
    REQUIRE(file.ok());
    // Pieces in a random order.
    std::vector<size_t> begins;
    const size_t piece = std::max<size_t>(size / 13, 1);
    for (size_t at = 0; at < size; at += piece) begins.push_back(at);
    for (size_t i = begins.size(); i > 1; --i) std::swap(begins[i - 1], begins[random.Below(i)]);
    for (const size_t at : begins) {
      const auto bytes = std::as_bytes(std::span(content)).subspan(at);
      REQUIRE((*file)->Write(at, bytes.first(std::min(piece, bytes.size()))).ok());
    }
    REQUIRE((*file)->Sync().ok());
  }
  CHECK(*program.files->ReadFile("s3://b/m/step-5.tmp-1/a", 1 << 30) == content);
  auto file = program.files->Open("s3://b/m/step-5.tmp-1/a");
  REQUIRE(file.ok());
  for (int i = 0; i < 100; ++i) {
    const uint64_t at = random.Below(size + 1);
    std::string part(random.Below(size - at + 1), '\0');
    if (i % 3 == 0) (*file)->StartRead(at, random.Below(part.size() + 10));
    REQUIRE((*file)->Read(at, std::as_writable_bytes(std::span(part))).ok());
    REQUIRE(part == content.substr(at, part.size()));
  }
  std::string beyond(2, '\0');
  CHECK((*file)
            ->Read(size - std::min<size_t>(size, 1), std::as_writable_bytes(std::span(beyond)))
            .code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("A mapping that the disk has no room for is refused") {
  const TemporaryFolder folder;
  const int result = RunInChild([&] {
    if (!MountSmallFileSystem(folder.path(), 4)) return 2;
    ::setenv("TMPDIR", folder.path().c_str(), 1);
    Program program(std::make_shared<MemoryBucket>());
    SIMURGH_CHECK(program.model->NewGeneration().ok());
    SIMURGH_CHECK(program.files->MakeFolder("s3://b/m/step-5.tmp-1").ok());
    const std::string path = "s3://b/m/step-5.tmp-1/a";
    SIMURGH_CHECK(program.files->WriteFile(path, std::string(8 << 20, 'a')).ok());
    const auto file = program.files->Open(path);
    SIMURGH_CHECK((*file)->Map(0, 1 << 20).ok());
    const Status full = (*file)->Map(0, 8 << 20).status();
    const bool is_told = absl::StrContains(full.message(), folder.path()) &&
                         absl::StrContains(full.message(), "the disk is full");
    return absl::IsResourceExhausted(full) && is_told ? 0 : 1;
  });
  if (result == 2) SIMURGH_SKIP("this process may not mount");
  CHECK(result == 0);
}

TEST_CASE("A model that was copied to a bucket is read, and then trained on") {
  const auto bucket = std::make_shared<MemoryBucket>();
  {
    Program writer(bucket);
    REQUIRE(*writer.model->NewGeneration() == 1);
    WriteCheckpoint(*writer.model, 5, 1, 100, *writer.files);
    UseLayoutOfDisk(*bucket);
    const MutexLock lock(bucket->mutex);
    bucket->objects["latest"] = {"step-5\n", "l"};
    bucket->objects["generation-1"] = {"", "g"};
    bucket->objects["history.jsonl"] = {"{}\n", "h"};
  }
  Program reader(bucket);
  CHECK(reader.model->Latest()->checkpoint.Verify(kQuiet)->empty());
  CHECK(*reader.model->LatestStep() == 5);
  Program trainer(bucket);
  REQUIRE(*trainer.model->NewGeneration() == 2);
  REQUIRE(trainer.model->RemoveLeftovers(2).ok());
  WriteCheckpoint(*trainer.model, 6, 2, 100, *trainer.files);
  CHECK(reader.model->Latest()->checkpoint.manifest.step == 6);
  CHECK(*reader.model->LatestStep() == 6);
  CHECK(reader.model->Open(5)->Verify(kQuiet)->empty());
}

TEST_CASE("A checkpoint that a person copies into the bucket is one of the model") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program writer(bucket);
  REQUIRE(*writer.model->NewGeneration() == 1);
  WriteCheckpoint(*writer.model, 5, 1, 100, *writer.files);
  {
    UseLayoutOfDisk(*bucket);
    const MutexLock lock(bucket->mutex);
    bucket->objects["names.json"] = {BucketNames().ToJson(), "empty"};
  }
  Program next(bucket);
  const uint64_t generation = *next.model->NewGeneration();
  REQUIRE(next.model->RemoveLeftovers(generation).ok());
  CHECK(next.model->Latest()->checkpoint.Verify(kQuiet)->empty());
  CHECK(next.model->Latest()->checkpoint.manifest.step == 5);
}

TEST_CASE("A copied checkpoint whose removal was interrupted is none") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program writer(bucket);
  REQUIRE(*writer.model->NewGeneration() == 1);
  WriteCheckpoint(*writer.model, 5, 1, 100, *writer.files);
  UseLayoutOfDisk(*bucket);
  Program first(bucket);
  REQUIRE(first.model->NewGeneration().ok());
  int removed = 0;
  first.store->before = [&](const std::string& request) {
    return request.starts_with("DELETE ") && ++removed > 1 ? absl::UnavailableError("ended")
                                                           : absl::OkStatus();
  };
  CHECK_FALSE(first.files->Remove("s3://b/m/step-5").ok());
  Program next(bucket);
  REQUIRE(next.model->RemoveLeftovers(*next.model->NewGeneration()).ok());
  CHECK(next.model->Steps()->empty());
}

TEST_CASE("An older start does not replace the history of a newer one") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program old(bucket);
  Program young(bucket);
  REQUIRE(*old.model->NewGeneration() == 1);
  REQUIRE(old.model->WriteHistory("old\n", 1).ok());
  bool interrupted = true;
  for (int requests = 0; interrupted; ++requests) {
    CAPTURE(requests);
    interrupted = false;
    int left = requests;
    const uint64_t generation = *old.model->NewGeneration();
    old.store->before = [&](const std::string& /*request*/) -> Status {
      if (interrupted || left-- > 0) return absl::OkStatus();
      interrupted = true;
      return young.model->WriteHistory("young\n", *young.model->NewGeneration());
    };
    const Status late = old.model->WriteHistory("old\n", generation);
    old.store->before = nullptr;
    CHECK(late.ok() == !interrupted);
    CHECK(*old.model->ReadHistory() == (interrupted ? "young\n" : "old\n"));
  }
}

TEST_CASE("Names that are no model's are refused") {
  const auto bucket = std::make_shared<MemoryBucket>();
  Program program(bucket);
  const auto [text, reason] = GENERATE(table<std::string, std::string>({
      {"", "not JSON"},
      {"[1]", "not a JSON object"},
      {R"({"name": "another program's"})", "format_version: there is none"},
      {R"({"format_version": 2})", "format_version: 2"},
      {R"({"format_version": 1, "files": {}, "folders": {"a": 1}, "changes": []})", "folders.a"},
      {R"({"format_version": 1, "files": {}, "folders": {"a": "b/c"}, "changes": []})",
       "folders.a"},
      {R"({"format_version": 1, "files": {}, "folders": {"a": "x", "b": "x"}, "changes": []})",
       "folders.b"},
      {R"({"format_version": 1, "files": {}, "folders": {}, "changes": [1]})", "changes"},
  }));
  REQUIRE(program.store->Put("names.json", text, {}).ok());
  const Status status = program.model->NewGeneration().status();
  CHECK_FALSE(status.ok());
  CHECK_THAT(std::string(status.message()),
             Contains("names.json") && Contains(reason) && Contains("use another prefix"));
  // It stays as it is.
  CHECK((*program.store->Get("names.json", 1 << 20, ""))->bytes == text);
}

TEST_CASE("A store that ignores conditions is refused before anything is saved") {
  const auto bucket = std::make_shared<MemoryBucket>();
  bucket->ignores_conditions = true;
  Program program(bucket);
  const Status status = program.model->NewGeneration().status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK_THAT(std::string(status.message()), Contains("ignores conditional writes"));
}

TEST_CASE("Names move together with the folders in them") {
  BucketNames names;
  REQUIRE(names.AddFolder("bin", "p0").ok());
  REQUIRE(names.AddFolder("step-5", "p1").ok());
  CHECK(absl::IsNotFound(names.AddFolder("none/step-5", "p2")));
  CHECK(absl::IsNotFound(names.Rename("step-5", "none/step-5")));
  REQUIRE(names.Rename("step-5", "bin/step-5").ok());
  CHECK(names.ObjectOf("bin/step-5/rows/a") == "p1/rows/a");
  CHECK(names.ObjectOf("bin/other") == "p0/other");
  CHECK(names.ObjectOf("step-5/rows/a").empty());
  CHECK(names.ObjectOf("bin-5/a").empty());
  REQUIRE(names.AddFolder("bin-5", "p3").ok());
  CHECK(names.In("bin") == std::vector<std::string>{"step-5/"});
  CHECK(names.In("") == std::vector<std::string>{"bin-5/", "bin/"});
  CHECK(names.Remove("bin") == std::vector<std::string>{"p0", "p1"});
  CHECK(names.In("") == std::vector<std::string>{"bin-5/"});
}

}  // namespace
}  // namespace simurgh
