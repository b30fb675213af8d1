#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"

namespace simurgh {

// An open file. The destructor closes it and does not sync it. Threads: one owner.
//
// After a failed Write or Sync the content is unknown: remove the file. A second Sync can succeed
// although the first one has lost data.
class File {
 public:
  virtual ~File() = default;

  // Reserves room for the whole file of `bytes`, so that later writes cannot find the disk full.
  // Errors: RESOURCE_EXHAUSTED with the folder, the bytes needed and the bytes free.
  virtual Status Allocate(uint64_t bytes) = 0;
  virtual Status Write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status Sync() = 0;
  // Begins to write these bytes to the disk, so that Sync has less to do. Does nothing where the
  // system cannot.
  virtual void StartWriteBack(uint64_t offset, uint64_t bytes) {}

  virtual StatusOr<uint64_t> Size() = 0;
  // Errors: DATA_LOSS if the file ends before `bytes` is full.
  virtual Status Read(uint64_t offset, std::span<std::byte> bytes) = 0;
  // Begins to read these bytes into memory. Does nothing where the system cannot.
  virtual void StartRead(uint64_t offset, uint64_t bytes) {}

  // Maps these bytes, to read single ones in any order. They stay readable after the file is closed
  // or removed. A file that is truncated, or a disk that fails, ends the process with SIGBUS.
  // Lifetime: the returned pointer's. Errors: UNIMPLEMENTED for a file that is not the system's.
  virtual StatusOr<std::shared_ptr<const std::byte>> Map(uint64_t offset, uint64_t bytes);
};

// The module's access to files and folders. A test replaces it, to stop between any two calls.
//
// Errors: those of the system calls, NOT_FOUND among them, with the path and the reason.
// Threads: any.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Returns the operating system's file system. Lifetime: the process.
  static FileSystem& Real();
  // Returns the file system of a model's folder: of its bucket if `path` is a URI, else `local`.
  // path: a model's folder, or that of a checkpoint or an attempt in it, without a file's name.
  // Errors of the URI are those of each call. Lifetime: the process; that of `local`.
  static FileSystem& For(const std::string& path, FileSystem& local = Real());

  // Creates a file. Errors: ALREADY_EXISTS.
  virtual StatusOr<std::unique_ptr<File>> Create(const std::string& path) = 0;
  // Opens a file to read it.
  virtual StatusOr<std::unique_ptr<File>> Open(const std::string& path) = 0;

  // Creates the folder and makes its name durable. A folder that exists is no error.
  // Errors: NOT_FOUND without the folder above it.
  virtual Status MakeFolder(const std::string& path) = 0;
  // Makes created, renamed and removed names in the folder durable.
  virtual Status SyncFolder(const std::string& path) = 0;
  // Returns the names in a folder, sorted. A folder's name ends with "/".
  virtual StatusOr<std::vector<std::string>> List(const std::string& path) = 0;

  // Replaces `to` if it is a file or an empty folder.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // Swaps the names of two files or folders in one step.
  virtual Status Exchange(const std::string& a, const std::string& b) = 0;
  // Removes a file, or a folder with its contents. A path that does not exist is no error.
  virtual Status Remove(const std::string& path) = 0;
  // Returns the bytes that a program may still write in a folder's file system.
  virtual StatusOr<uint64_t> FreeBytes(const std::string& folder) = 0;

  // Do the work of MakeFolder(), File::Sync() and SyncFolder() for many at once: a disk takes as
  // long for hundreds as for a few. Errors: the first one; the others are done or not.
  virtual Status MakeFoldersIn(const std::string& folder, std::span<const std::string> names);
  virtual Status SyncFiles(std::span<File* const> files);
  virtual Status SyncFolders(std::span<const std::string> paths);

  // Number of calls at the same time by which many small ones take the shortest time.
  virtual size_t calls_at_once() const { return 1; }

  // Removes what interrupted calls have left in a model's folder and no name tells. Errors: the
  // first one; what is left is removed by the next call.
  virtual Status RemoveLost(const std::string& folder) { return absl::OkStatus(); }

  // Creates the folder and the folders above it; see MakeFolder().
  Status MakeFolders(const std::string& path);

  // Writes a durable file in place of an existing one: `path` and the suffix, synced and renamed.
  // Processes that write it at the same time need different suffixes. The folder must be synced by
  // the caller. may_rename: called before the file gets its name, and an error ends the call.
  virtual Status WriteFile(const std::string& path, std::string_view content,
                           std::string_view suffix, absl::FunctionRef<Status()> may_rename);
  Status WriteFile(const std::string& path, std::string_view content) {
    return WriteFile(path, content, ".tmp", [] { return absl::OkStatus(); });
  }
  // Errors: OUT_OF_RANGE for a file of more than `max_bytes`.
  StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes);
};

// Checks that objects in a model's folder can be listed, written, read, replaced on conditions and
// removed. Removes what it has written. uri: of the model's folder in a bucket.
// Errors: those of the store, with a remedy.
Status CheckBucket(const std::string& uri);

// Returns RESOURCE_EXHAUSTED: what of `needed` bytes does not fit into the folder. what: "the
// checkpoint".
Status DiskFullError(const std::string& folder, std::string_view what, uint64_t needed,
                     uint64_t free);

}  // namespace simurgh
