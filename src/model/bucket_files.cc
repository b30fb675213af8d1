#include "model/bucket_files.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <random>
#include <semaphore>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "objects/s3_store.h"

#include "base/thread.h"
#include "config/uri.h"
#include "model/bucket_object.h"
#include "model/checkpoint_files.h"

namespace simurgh {
namespace {

using Condition = ObjectStore::Condition;

// A text of names.json is at most this long.
constexpr uint64_t kMaxTextBytes = 64;
// Most tries to change names that other programs change, too.
constexpr int kMostChanges = 100;
constexpr int kMostFailures = 2;

std::counting_semaphore<>& Uploads() {
  static std::counting_semaphore<> uploads(BucketFiles::kUploads);
  return uploads;
}

// Returns 64 random bits as text.
std::string RandomNumber() {
  static std::atomic<uint64_t> calls = 0;
  std::random_device device;
  const uint64_t high = device();
  return absl::StrCat(absl::Hex(high << 32 | device(), absl::kZeroPad16), absl::Hex(calls++));
}

// Returns the prefix of the objects of a new folder.
std::string NewPrefix(std::string_view folder) {
  return absl::StrCat(std::string(folder.substr(0, folder.find(".tmp-"))), ".", RandomNumber());
}

// Returns whether NewPrefix() has made it, and no person.
bool IsOwnPrefix(const std::string& prefix) {
  constexpr size_t kLeastDigits = 17;
  const size_t dot = prefix.rfind('.');
  return (prefix.starts_with("step-") || prefix.starts_with("removed")) && dot != prefix.npos &&
         prefix.size() - dot - 1 >= kLeastDigits &&
         prefix.find_first_not_of("0123456789abcdef", dot + 1) == prefix.npos;
}

// A text of names.json.
class NameFile : public File {
 public:
  NameFile(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {}
  Status Allocate(uint64_t /*bytes*/) override { return absl::OkStatus(); }
  Status Write(uint64_t /*offset*/, std::span<const std::byte> /*bytes*/) override {
    return absl::UnimplementedError(path_ + ": written by WriteFile");
  }
  Status Sync() override { return absl::OkStatus(); }
  StatusOr<uint64_t> Size() override { return text_.size(); }
  Status Read(uint64_t offset, std::span<std::byte> bytes) override {
    const auto text = std::as_bytes(std::span(text_));
    if (offset > text.size() || bytes.size() > text.size() - offset) {
      return absl::DataLossError(path_ + ": the text ends too early");
    }
    std::ranges::copy(text.subspan(offset, bytes.size()), bytes.begin());
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const std::string text_;
};

}  // namespace

BucketFiles::BucketFiles(std::string root, StatusOr<std::unique_ptr<ObjectStore>> store)
    : root_(std::move(root)),
      opened_(store.status()),
      store_(store.ok() ? *std::move(store) : nullptr) {}

BucketFiles::~BucketFiles() = default;

StatusOr<std::string> BucketFiles::BelowRoot(const std::string& path) const {
  SIMURGH_RETURN_IF_ERROR(opened_);
  if (path == root_) return std::string();
  if (path.starts_with(root_) && path[root_.size()] == '/') {
    size_t end = path.size();
    while (path[end - 1] == '/') --end;
    if (end <= root_.size()) return std::string();
    return path.substr(root_.size() + 1, end - root_.size() - 1);
  }
  return absl::InternalError(absl::StrCat(path, ": it is not in ", root_));
}

// --- The names.

StatusOr<BucketFiles::State> BucketFiles::Fetch() {
  std::optional<State> known;
  {
    const MutexLock lock(mutex_);
    known = known_;
  }
  StatusOr<std::optional<ObjectStore::Object>> object = store_->Get(
      BucketNames::kObject, BucketNames::kMaxBytes + 1, known ? known->tag : std::string());
  if (absl::IsNotFound(object.status())) return NamesOfObjects();
  SIMURGH_RETURN_IF_ERROR(object.status());
  if (!object->has_value()) return *std::move(known);
  const std::string name = store_->NameOf(BucketNames::kObject);
  if ((*object)->whole > BucketNames::kMaxBytes) {
    return absl::DataLossError(absl::StrCat(name, ": too long for the names of a model"));
  }
  StatusOr<BucketNames> names = BucketNames::FromJson((*object)->bytes);
  if (!names.ok()) {
    return Annotate(names.status(), absl::StrCat(name,
                                                 ": not the names of a model; use another "
                                                 "prefix of the bucket"));
  }
  State state{.names = *std::move(names), .tag = std::move((*object)->tag)};
  const MutexLock lock(mutex_);
  known_ = state;
  return state;
}

StatusOr<BucketFiles::State> BucketFiles::NamesOfObjects() {
  SIMURGH_ASSIGN_OR_RETURN(const ObjectStore::Listing listing, store_->List("", /*deep=*/false));
  State state{.is_missing = listing.keys.empty() && listing.folders.empty()};
  for (const std::string& folder : listing.folders) {
    const std::string name = folder.substr(0, folder.size() - 1);
    SIMURGH_RETURN_IF_ERROR(state.names.AddFolder(name, name));
  }
  for (const std::string& key : listing.keys) {
    if (!BucketNames::Keeps(key)) continue;
    SIMURGH_ASSIGN_OR_RETURN(const auto text, store_->Get(key, kMaxTextBytes));
    if (text) state.names.SetFile(key, text->bytes);
  }
  const MutexLock lock(mutex_);
  known_ = state;
  return state;
}

Status BucketFiles::Change(absl::FunctionRef<Status(State&)> edit) {
  const std::string number = RandomNumber();
  Status problem;
  int failures = 0;
  for (int tries = 0; tries < kMostChanges; ++tries) {
    SIMURGH_ASSIGN_OR_RETURN(State state, Fetch());
    // The answer of an earlier try may have been lost.
    if (tries > 0 && state.names.HasChange(number)) return absl::OkStatus();
    const BucketNames before = state.names;
    SIMURGH_RETURN_IF_ERROR(edit(state));
    if (state.names == before && !state.tag.empty()) return absl::OkStatus();
    state.names.NoteChange(number);
    const Condition condition = state.tag.empty()
                                    ? Condition{.kind = Condition::Kind::kMissing, .tag = {}}
                                    : Condition{.kind = Condition::Kind::kTag, .tag = state.tag};
    StatusOr<std::string> tag = store_->Put(BucketNames::kObject, state.names.ToJson(), condition);
    if (tag.ok()) {
      state.tag = *std::move(tag);
      state.is_missing = false;
      const MutexLock lock(mutex_);
      known_ = std::move(state);
      return absl::OkStatus();
    }
    problem = tag.status();
    if (absl::IsAborted(problem)) continue;
    // The store has been asked for half a minute each time.
    const bool may_pass = absl::IsUnavailable(problem) || absl::IsDeadlineExceeded(problem);
    if (!may_pass || ++failures == kMostFailures) return problem;
  }
  return absl::UnavailableError(absl::StrCat(
      store_->NameOf(BucketNames::kObject), ": not changed in ", kMostChanges,
      " tries: ", problem.message(), "; end other trainings that save to this folder"));
}

Status BucketFiles::CheckConditions() {
  for (const Condition& condition :
       {Condition{.kind = Condition::Kind::kMissing, .tag = {}},
        Condition{.kind = Condition::Kind::kTag, .tag = "\"00000000000000000000000000000000\""}}) {
    SIMURGH_ASSIGN_OR_RETURN(const State state, Fetch());
    if (state.tag.empty()) return absl::NotFoundError(root_ + ": there is no model");
    // A store that ignores the condition replaces the object by what it has already, unless
    // another program has just changed it.
    const Status put = store_->Put(BucketNames::kObject, state.names.ToJson(), condition).status();
    if (absl::IsAborted(put)) continue;
    SIMURGH_RETURN_IF_ERROR(put);
    return absl::FailedPreconditionError(absl::StrCat(
        root_,
        ": the store ignores conditional writes (If-Match), so two trainings could damage "
        "each other's checkpoints; use another store, or a folder"));
  }
  return absl::OkStatus();
}

StatusOr<std::string> BucketFiles::ObjectOf(const std::string& below) {
  {
    const MutexLock lock(mutex_);
    // The objects of a folder do not change while it has its name.
    const std::string key = known_ ? known_->names.ObjectOf(below) : "";
    if (!key.empty()) return key;
  }
  SIMURGH_ASSIGN_OR_RETURN(const State state, Fetch());
  std::string key = state.names.ObjectOf(below);
  if (!key.empty() || state.names.files().contains(below)) return key;
  if (below.find('/') == below.npos && !BucketNames::Keeps(below)) return below;
  return absl::NotFoundError(absl::StrCat(root_, "/", below, ": there is no such file"));
}

// --- Files.

StatusOr<std::unique_ptr<File>> BucketFiles::Create(const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string below, BelowRoot(path));
  if (BucketNames::Keeps(below)) {
    SIMURGH_RETURN_IF_ERROR(
        Change([&](State& state) { return Annotate(state.names.AddFile(below, ""), root_); }));
    return std::make_unique<NameFile>(path, "");
  }
  SIMURGH_ASSIGN_OR_RETURN(std::string key, ObjectOf(below));
  return CreateObject(*store_, std::move(key), kPartBytes, Uploads());
}

StatusOr<std::unique_ptr<File>> BucketFiles::Open(const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string below, BelowRoot(path));
  if (BucketNames::Keeps(below)) {
    SIMURGH_ASSIGN_OR_RETURN(const State state, Fetch());
    const auto file = state.names.files().find(below);
    if (file != state.names.files().end()) return std::make_unique<NameFile>(path, file->second);
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const std::string key, ObjectOf(below));
  if (key.find('/') == key.npos && key != below) {
    return absl::DataLossError(absl::StrCat(path, ": it is a folder"));
  }
  return OpenObject(*store_, key);
}

Status BucketFiles::WriteFile(const std::string& path, std::string_view content,
                              std::string_view /*suffix*/, absl::FunctionRef<Status()> may_rename) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string below, BelowRoot(path));
  if (BucketNames::Keeps(below)) {
    // `may_rename` reads names that are as old as those that are replaced, or newer.
    return Change([&](State& state) -> Status {
      SIMURGH_RETURN_IF_ERROR(may_rename());
      state.names.SetFile(below, content);
      return absl::OkStatus();
    });
  }
  SIMURGH_ASSIGN_OR_RETURN(const std::string key, ObjectOf(below));
  if (key.find('/') != key.npos) {  // No other start has the prefix.
    SIMURGH_RETURN_IF_ERROR(may_rename());
    return store_->Put(key, content, {}).status();
  }
  Status written;
  for (int tries = 0; tries < kMostChanges; ++tries) {
    const auto present = store_->Get(key, 1);
    if (!present.ok() && !absl::IsNotFound(present.status())) return present.status();
    SIMURGH_RETURN_IF_ERROR(may_rename());
    const Condition condition =
        present.ok() ? Condition{.kind = Condition::Kind::kTag, .tag = (*present)->tag}
                     : Condition{.kind = Condition::Kind::kMissing, .tag = {}};
    written = store_->Put(key, content, condition).status();
    if (!absl::IsAborted(written)) break;
  }
  return written;
}

Status BucketFiles::SyncFiles(std::span<File* const> files) {
  return ForEachAtOnce(files.size(), kRequestsAtOnce, [&](size_t i) { return files[i]->Sync(); });
}

// --- Folders.

Status BucketFiles::MakeFolder(const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string below, BelowRoot(path));
  if (below.empty()) {
    SIMURGH_RETURN_IF_ERROR(Change([](State& /*state*/) { return absl::OkStatus(); }));
    return CheckConditions();
  }
  {
    // Folders in a checkpoint need no names.
    const MutexLock lock(mutex_);
    const size_t slash = below.rfind('/');
    if (known_ && slash != below.npos && !known_->names.ObjectOf(below.substr(0, slash)).empty()) {
      return absl::OkStatus();
    }
  }
  return Change([&](State& state) -> Status {
    if (state.tag.empty()) return absl::NotFoundError(root_ + ": there is no model");
    if (!state.names.ObjectOf(below).empty()) return absl::OkStatus();
    return state.names.AddFolder(below, NewPrefix(below));
  });
}

Status BucketFiles::SyncFolder(const std::string& /*path*/) { return absl::OkStatus(); }

StatusOr<std::vector<std::string>> BucketFiles::List(const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string below, BelowRoot(path));
  SIMURGH_ASSIGN_OR_RETURN(const State state, Fetch());
  const auto missing = [&] {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such folder"));
  };
  if (state.is_missing) return missing();
  std::vector<std::string> names = state.names.In(below);
  if (below.empty()) return names;
  const std::string key = state.names.ObjectOf(below);
  if (key.empty()) return missing();
  const std::string prefix = key + "/";
  SIMURGH_ASSIGN_OR_RETURN(const ObjectStore::Listing listing, store_->List(prefix, false));
  for (const auto* const found : {&listing.keys, &listing.folders}) {
    for (const std::string& one : *found) names.push_back(one.substr(prefix.size()));
  }
  if (names.empty() && !state.names.folders().contains(below)) return missing();
  std::ranges::sort(names);
  return names;
}

Status BucketFiles::Rename(const std::string& from, const std::string& to) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string old_name, BelowRoot(from));
  SIMURGH_ASSIGN_OR_RETURN(const std::string new_name, BelowRoot(to));
  return Change(
      [&](State& state) { return Annotate(state.names.Rename(old_name, new_name), root_); });
}

Status BucketFiles::Exchange(const std::string& a, const std::string& b) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string name_a, BelowRoot(a));
  SIMURGH_ASSIGN_OR_RETURN(const std::string name_b, BelowRoot(b));
  return Change(
      [&](State& state) { return Annotate(state.names.Exchange(name_a, name_b), root_); });
}

Status BucketFiles::Remove(const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string below, BelowRoot(path));
  if (below.empty()) {
    SIMURGH_RETURN_IF_ERROR(store_->Remove(BucketNames::kObject));
    SIMURGH_ASSIGN_OR_RETURN(const ObjectStore::Listing listing, store_->List("", true));
    return RemoveAll(listing.keys);
  }
  const bool is_step = below.starts_with("step-") || below.starts_with("removed");
  if (!is_step && !BucketNames::Keeps(below)) return store_->Remove(below);
  std::string object;
  std::vector<std::string> prefixes;
  SIMURGH_RETURN_IF_ERROR(Change([&](State& state) {
    // Names go before their objects: what is left of these is nowhere named.
    prefixes = state.names.Remove(below);
    object = state.names.ObjectOf(below);
    return absl::OkStatus();
  }));
  return prefixes.empty() && !object.empty() ? store_->Remove(object) : RemoveObjects(prefixes);
}

Status BucketFiles::RemoveAll(const std::vector<std::string>& keys) {
  return ForEachAtOnce(keys.size(), kRequestsAtOnce,
                       [&](size_t i) { return store_->Remove(keys[i]); });
}

Status BucketFiles::RemoveObjects(const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    // Without it, a copied checkpoint is none, also if the removal is interrupted.
    SIMURGH_RETURN_IF_ERROR(store_->Remove(prefix + kManifest));
    SIMURGH_ASSIGN_OR_RETURN(const ObjectStore::Listing listing, store_->List(prefix + "/", true));
    SIMURGH_RETURN_IF_ERROR(RemoveAll(listing.keys));
  }
  return absl::OkStatus();
}

// A folder's prefix is in names.json before it has objects. So one that is listed first and not
// named afterwards has lost its name for good.
Status BucketFiles::RemoveLost(const std::string& folder) {
  SIMURGH_RETURN_IF_ERROR(BelowRoot(folder).status());
  SIMURGH_ASSIGN_OR_RETURN(const ObjectStore::Listing listing, store_->List("", false));
  StatusOr<std::vector<ObjectStore::Upload>> uploads = store_->Uploads();
  // Some keys and stores cannot list uploads. A rule of the bucket can remove these.
  if (absl::IsPermissionDenied(uploads.status()) || absl::IsFailedPrecondition(uploads.status())) {
    uploads = std::vector<ObjectStore::Upload>();
  }
  SIMURGH_RETURN_IF_ERROR(uploads.status());
  SIMURGH_ASSIGN_OR_RETURN(const State state, Fetch());
  if (state.tag.empty()) return absl::OkStatus();
  std::set<std::string> named;
  for (const auto& [path, prefix] : state.names.folders()) named.insert(prefix);
  const auto is_lost = [&](const std::string& prefix) {
    return IsOwnPrefix(prefix) && !named.contains(prefix);
  };
  std::vector<std::string> lost;
  std::vector<std::string> copied;
  for (const std::string& folder : listing.folders) {
    const std::string prefix = folder.substr(0, folder.size() - 1);
    if (is_lost(prefix)) lost.push_back(prefix);
    const bool is_step =
        prefix.starts_with("step-") && prefix.find_first_not_of("0123456789", 5) == prefix.npos;
    if (!is_step || named.contains(prefix)) continue;
    const Status manifest = store_->Get(prefix + kManifest, 1).status();
    if (manifest.ok()) copied.push_back(prefix);
    if (!manifest.ok() && !absl::IsNotFound(manifest)) return manifest;
  }
  // A person has copied these checkpoints.
  SIMURGH_RETURN_IF_ERROR(Change([&](State& now) -> Status {
    for (const std::string& step : copied) {
      if (!now.names.folders().contains(step)) {
        SIMURGH_RETURN_IF_ERROR(now.names.AddFolder(step, step));
      }
    }
    return absl::OkStatus();
  }));
  for (const ObjectStore::Upload& upload : *uploads) {
    const size_t slash = upload.key.find('/');
    if (slash == upload.key.npos || !is_lost(upload.key.substr(0, slash))) continue;
    SIMURGH_RETURN_IF_ERROR(store_->Abort(upload));
  }
  return RemoveObjects(lost);
}

StatusOr<uint64_t> BucketFiles::FreeBytes(const std::string& /*folder*/) {
  return std::numeric_limits<uint64_t>::max();
}

// --- One for each root.

FileSystem& BucketFilesFor(const std::string& root) {
  static Mutex mutex;
  static auto& all = *new std::map<std::string, std::unique_ptr<BucketFiles>>;
  const MutexLock lock(mutex);
  std::unique_ptr<BucketFiles>& files = all[root];
  if (files == nullptr) files = std::make_unique<BucketFiles>(root, OpenS3(root));
  return *files;
}

Status CheckBucket(const std::string& uri) {
  // The next start of training removes what an interrupted check leaves.
  const std::string own = absl::StrCat(BucketPath(uri), "/", NewPrefix("removed.check"));
  const std::string file = own + "/check";
  BucketFiles files(own, OpenS3(own));
  const auto use = [&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(files.MakeFolder(own));
    SIMURGH_RETURN_IF_ERROR(files.WriteFile(file, "check"));
    SIMURGH_RETURN_IF_ERROR(files.ReadFile(file, kMaxTextBytes).status());
    return files.RemoveLost(own);
  };
  Status works = use();
  works.Update(files.Remove(file));
  works.Update(files.Remove(absl::StrCat(own, "/", BucketNames::kObject)));
  return works;
}

}  // namespace simurgh
