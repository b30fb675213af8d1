#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/file_system.h"

namespace simurgh::testing {

// Files and folders in memory, with what of them is durable. A file's content is durable once
// synced, a name once its folder is synced. After `fail_after` operations every one fails, which
// stands for the death of the process; a single one fails with `fail_once`. A full disk stores
// nothing in new files and beyond the ends of others.
//
// Threads: one owner.
class MemoryFileSystem : public FileSystem {
 public:
  static constexpr uint64_t kNever = ~uint64_t{0};

  StatusOr<std::unique_ptr<File>> Create(const std::string& path) override;
  StatusOr<std::unique_ptr<File>> Open(const std::string& path) override;
  Status MakeFolder(const std::string& path) override;
  Status SyncFolder(const std::string& path) override;
  StatusOr<std::vector<std::string>> List(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Exchange(const std::string& a, const std::string& b) override;
  Status Remove(const std::string& path) override;
  StatusOr<uint64_t> FreeBytes(const std::string& folder) override;

  // What is there after a loss of power. Of what is not durable, `keep()` decides whether it
  // survives, in any order: each change of a folder's names, and each block of a file.
  template <typename Keep>
  MemoryFileSystem AfterPowerLoss(Keep keep) const {
    MemoryFileSystem after;
    after.root_ = Survivor(*root_, keep);
    return after;
  }

  void SetFull(bool full) { is_full_ = full; }
  // What a failed sync leaves: the file reads as before, and nothing makes it durable.
  void LoseUnsynced(const std::string& path);

  uint64_t operations() const { return operations_; }
  void FailAfter(uint64_t operations) { fail_after_ = operations; }
  void FailOnce(uint64_t operation, Status status) {
    fail_once_ = operation;
    failure_ = std::move(status);
  }
  // The mutating calls so far, such as "sync /m/step-3".
  const std::vector<std::string>& log() const { return log_; }

 private:
  friend class MemoryFile;
  static constexpr size_t kBlockBytes = 512;

  struct Node;
  using NodePointer = std::shared_ptr<Node>;
  using Names = std::map<std::string, NodePointer>;
  // One change of a folder's names; null: the name goes.
  using Change = std::vector<std::pair<std::string, NodePointer>>;

  struct Node {
    void Apply(const Change& change) { Apply(change, names); }
    static void Apply(const Change& change, Names& names) {
      for (const auto& [name, node] : change) {
        if (node == nullptr) {
          names.erase(name);
        } else {
          names[name] = node;
        }
      }
    }

    bool is_folder = false;
    std::string content;
    std::string synced_content;
    bool is_lost = false;  // See LoseUnsynced().
    Names names;
    Names synced_names;
    std::vector<Change> changes;  // Of the names, since the last sync.
  };

  static void ChangeNames(Node& folder, Change change) {
    folder.Apply(change);
    folder.changes.push_back(std::move(change));
  }

  template <typename Keep>
  static std::string SurvivingContent(const Node& file, Keep& keep) {
    if (file.content == file.synced_content || file.is_lost) return file.synced_content;
    std::string after = file.synced_content;
    if (file.content.size() != after.size() && keep()) after.resize(file.content.size());
    for (size_t at = 0; at < after.size(); at += kBlockBytes) {
      if (at >= file.content.size() || !keep()) continue;
      const size_t bytes = std::min({kBlockBytes, after.size() - at, file.content.size() - at});
      after.replace(at, bytes, file.content, at, bytes);
    }
    return after;
  }

  template <typename Keep>
  static NodePointer Survivor(const Node& node, Keep& keep) {
    auto after = std::make_shared<Node>();
    after->is_folder = node.is_folder;
    if (!node.is_folder) {
      after->content = after->synced_content = SurvivingContent(node, keep);
      return after;
    }
    // A rename is one change of the folder: both of its names survive, or none.
    Names names = node.synced_names;
    for (const Change& change : node.changes) {
      if (keep()) Node::Apply(change, names);
    }
    for (const auto& [name, child] : names) after->names.emplace(name, Survivor(*child, keep));
    after->synced_names = after->names;
    return after;
  }

  Status Count(const std::string& what);
  // Errors: RESOURCE_EXHAUSTED for a file that grows on a full disk.
  Status CheckRoom(const std::string& path, size_t bytes, size_t wanted) const;
  // The folder of a path and the last name of it. Null if there is no such folder.
  std::pair<Node*, std::string> Locate(const std::string& path) const;
  NodePointer Find(const std::string& path) const;

  NodePointer root_ = [] {
    auto root = std::make_shared<Node>();
    root->is_folder = true;
    return root;
  }();
  bool is_full_ = false;
  uint64_t operations_ = 0;
  uint64_t fail_after_ = kNever;
  uint64_t fail_once_ = kNever;
  Status failure_;
  std::vector<std::string> log_;
};

}  // namespace simurgh::testing
