#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "simurgh/model/file_system.h"

namespace simurgh::testing {

// Files and folders in memory, with what of them is durable. A file's content is durable once
// synced, a name once its folder is synced. After `fail_after` operations every one fails, which
// stands for the death of the process; a single one fails with `fail_once`.
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

  // What is there after a loss of power. Of what is not durable, `keep(what)` decides for each name
  // of each folder and for the content of each file whether it survives.
  template <typename Keep>
  MemoryFileSystem AfterPowerLoss(Keep keep) const {
    MemoryFileSystem after;
    after.root_ = Survivor(*root_, keep);
    return after;
  }

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
  struct Node {
    bool is_folder = false;
    std::string content;
    std::string synced_content;
    std::map<std::string, std::shared_ptr<Node>> names;
    std::map<std::string, std::shared_ptr<Node>> synced_names;
  };
  using NodePointer = std::shared_ptr<Node>;

  template <typename Keep>
  static NodePointer Survivor(const Node& node, Keep keep) {
    auto after = std::make_shared<Node>();
    after->is_folder = node.is_folder;
    if (!node.is_folder) {
      after->content =
          node.content == node.synced_content || keep() ? node.content : node.synced_content;
      after->synced_content = after->content;
      return after;
    }
    // A rename is one change of the folder: both of its names survive, or none.
    const bool newer = node.names != node.synced_names && keep();
    for (const auto& [name, child] : newer ? node.names : node.synced_names) {
      after->names.emplace(name, Survivor(*child, keep));
    }
    after->synced_names = after->names;
    return after;
  }

  Status Count(const std::string& what);
  // The folder of a path and the last name of it. Null if there is no such folder.
  std::pair<Node*, std::string> Locate(const std::string& path) const;
  NodePointer Find(const std::string& path) const;

  NodePointer root_ = [] {
    auto root = std::make_shared<Node>();
    root->is_folder = true;
    return root;
  }();
  uint64_t operations_ = 0;
  uint64_t fail_after_ = kNever;
  uint64_t fail_once_ = kNever;
  Status failure_;
  std::vector<std::string> log_;
};

}  // namespace simurgh::testing
