#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace simurgh {

// The names in a model's folder of a bucket: the object names.json. See src/model/FORMAT.md.
//
// Paths are relative to the model's folder, such as "step-5" and "removed.tmp-3/step-4". The
// functions do what those of FileSystem do, and have their errors; messages name the path.
class BucketNames {
 public:
  static constexpr char kObject[] = "names.json";
  static constexpr uint64_t kMaxBytes = uint64_t{16} << 20;

  // Returns whether a file of the model's folder is kept here; others are objects of their own.
  static bool Keeps(std::string_view path);

  // Errors: DATA_LOSS for another text; FAILED_PRECONDITION for a newer format.
  static StatusOr<BucketNames> FromJson(std::string_view json);
  std::string ToJson() const;

  const std::map<std::string, std::string>& files() const { return files_; }
  const std::map<std::string, std::string>& folders() const { return folders_; }

  // Returns the names in a folder, sorted, those of folders with a slash. folder: empty for all.
  std::vector<std::string> In(std::string_view folder) const;

  // The objects of a path in a folder: "step-5/rows/a" is "step-5.07f3a1/rows/a". Empty for a path
  // in no folder.
  std::string ObjectOf(std::string_view path) const;

  Status AddFile(const std::string& path, std::string_view text);
  void SetFile(const std::string& path, std::string_view text);
  // prefix: of the folder's objects, which no other folder has ever had.
  Status AddFolder(const std::string& path, std::string prefix);
  // Removes a file, or a folder with those in it. Returns the prefixes of its objects.
  std::vector<std::string> Remove(const std::string& path);
  Status Rename(const std::string& from, const std::string& to);
  Status Exchange(const std::string& a, const std::string& b);

  // The newest changes, by which a writer finds its own: its answer can get lost.
  void NoteChange(std::string number);
  bool HasChange(std::string_view number) const;

  bool operator==(const BucketNames&) const = default;

 private:
  // Takes a folder and those in it out, with their paths relative to it.
  std::map<std::string, std::string> TakeFolder(const std::string& path);
  void PutFolder(const std::string& path, const std::map<std::string, std::string>& folders);

  std::map<std::string, std::string> files_;    // Texts by path.
  std::map<std::string, std::string> folders_;  // Prefixes of objects by path, without slashes.
  std::vector<std::string> changes_;            // The newest last.
};

}  // namespace simurgh
