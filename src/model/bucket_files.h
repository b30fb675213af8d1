#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "objects/object_store.h"

#include "base/mutex.h"
#include "base/status.h"
#include "model/bucket_names.h"
#include "model/file_system.h"

namespace simurgh {

// The folder of a model in a bucket. See "A model in a bucket" in src/model/FORMAT.md.
//
// What changes names is one conditional write of the object names.json: it happens or does not,
// and no two programs do it at once. Files are objects, which exist once they are synced.
//
// Memory: of a file that is written, the parts that are not full, at most one of each tensor; and
// kUploads full parts of all files. A part has kPartBytes, or a 10,000th of a larger file.
// Threads: any.
class BucketFiles : public FileSystem {
 public:
  static constexpr uint64_t kPartBytes = uint64_t{8} << 20;
  static constexpr int kUploads = 8;
  static constexpr size_t kRequestsAtOnce = 16;  // But for parts.

  // root: path of the model's folder, with which all paths of calls begin.
  // store: an error is returned by all calls.
  BucketFiles(std::string root, StatusOr<std::unique_ptr<ObjectStore>> store);
  ~BucketFiles() override;

  StatusOr<std::unique_ptr<File>> Create(const std::string& path) override;
  StatusOr<std::unique_ptr<File>> Open(const std::string& path) override;
  Status MakeFolder(const std::string& path) override;
  Status SyncFolder(const std::string& path) override;
  StatusOr<std::vector<std::string>> List(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Exchange(const std::string& a, const std::string& b) override;
  Status Remove(const std::string& path) override;
  StatusOr<uint64_t> FreeBytes(const std::string& folder) override;
  Status SyncFiles(std::span<File* const> files) override;
  Status RemoveLost(const std::string& folder) override;
  size_t calls_at_once() const override { return kRequestsAtOnce; }
  Status WriteFile(const std::string& path, std::string_view content, std::string_view suffix,
                   absl::FunctionRef<Status()> may_rename) override;
  using FileSystem::WriteFile;

 private:
  struct State {
    BucketNames names;
    std::string tag;          // The tag of names.json; empty: there is none.
    bool is_missing = false;  // There is no object at all below the root.
  };
  // The present names. Without names.json, those of the objects: a model that was copied.
  StatusOr<State> Fetch();
  StatusOr<State> NamesOfObjects();
  // Reads the names, lets `edit` change them and writes them, until no other program has changed
  // them meanwhile. Errors: those of `edit`, which end it.
  Status Change(absl::FunctionRef<Status(State&)> edit);
  // Writes names.json on conditions that do not hold. Errors: FAILED_PRECONDITION if the store
  // ignores them: then two trainings could save to the folder at once.
  Status CheckConditions();
  Status RemoveAll(const std::vector<std::string>& keys);
  // Removes the objects of folders.
  Status RemoveObjects(const std::vector<std::string>& prefixes);

  StatusOr<std::string> BelowRoot(const std::string& path) const;
  // Returns the key of a file's object; empty for a name of names.json.
  StatusOr<std::string> ObjectOf(const std::string& below);

  const std::string root_;
  const Status opened_;
  const std::unique_ptr<ObjectStore> store_;
  Mutex mutex_;
  std::optional<State> known_ ABSL_GUARDED_BY(mutex_);  // The newest names that were read.
};

// Returns the file system of a model's folder in a bucket; one for each root, until the process
// ends.
FileSystem& BucketFilesFor(const std::string& root);

}  // namespace simurgh
