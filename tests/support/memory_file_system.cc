#include "tests/support/memory_file_system.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace simurgh::testing {
namespace {

Status Missing(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("cannot open ", path, ": No such file or directory"));
}

}  // namespace

class MemoryFile : public File {
 public:
  MemoryFile(MemoryFileSystem& files, std::string path, MemoryFileSystem::NodePointer node)
      : files_(files), path_(std::move(path)), node_(std::move(node)) {}

  Status Allocate(uint64_t bytes) override {
    SIMURGH_RETURN_IF_ERROR(files_.Count("allocate " + path_));
    SIMURGH_RETURN_IF_ERROR(files_.CheckRoom(path_, node_->content.size(), bytes));
    node_->content.resize(std::max<size_t>(node_->content.size(), bytes));
    return absl::OkStatus();
  }
  Status Write(uint64_t offset, std::span<const std::byte> bytes) override {
    SIMURGH_RETURN_IF_ERROR(files_.Count("write " + path_));
    SIMURGH_RETURN_IF_ERROR(files_.CheckRoom(path_, node_->content.size(), offset + bytes.size()));
    node_->content.resize(std::max<size_t>(node_->content.size(), offset + bytes.size()));
    if (!bytes.empty()) std::memcpy(node_->content.data() + offset, bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  Status Sync() override {
    SIMURGH_RETURN_IF_ERROR(files_.Count("sync " + path_));
    if (!node_->is_lost) node_->synced_content = node_->content;
    return absl::OkStatus();
  }
  StatusOr<uint64_t> Size() override { return node_->content.size(); }
  Status Read(uint64_t offset, std::span<std::byte> bytes) override {
    if (offset + bytes.size() > node_->content.size()) {
      return absl::DataLossError(absl::StrCat(path_, ": the file ends"));
    }
    if (!bytes.empty()) std::memcpy(bytes.data(), node_->content.data() + offset, bytes.size());
    return absl::OkStatus();
  }

 private:
  MemoryFileSystem& files_;
  const std::string path_;
  const MemoryFileSystem::NodePointer node_;
};

Status MemoryFileSystem::Count(const std::string& what) {
  if (operations_ >= fail_after_) return absl::AbortedError("the process is dead");
  if (operations_++ == fail_once_) return failure_;
  log_.push_back(what);
  return absl::OkStatus();
}

void MemoryFileSystem::LoseUnsynced(const std::string& path) {
  if (const NodePointer node = Find(path); node != nullptr) node->is_lost = true;
}

Status MemoryFileSystem::CheckRoom(const std::string& path, size_t bytes, size_t wanted) const {
  if (!is_full_ || wanted <= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(path + ": the disk is full");
}

std::pair<MemoryFileSystem::Node*, std::string> MemoryFileSystem::Locate(
    const std::string& path) const {
  const std::vector<std::string> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
  Node* folder = root_.get();
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto found = folder->names.find(parts[i]);
    if (found == folder->names.end() || !found->second->is_folder) return {nullptr, ""};
    folder = found->second.get();
  }
  return {folder, parts.empty() ? "" : parts.back()};
}

MemoryFileSystem::NodePointer MemoryFileSystem::Find(const std::string& path) const {
  const auto [folder, name] = Locate(path);
  if (folder == nullptr) return nullptr;
  if (name.empty()) return root_;
  const auto found = folder->names.find(name);
  return found == folder->names.end() ? nullptr : found->second;
}

StatusOr<std::unique_ptr<File>> MemoryFileSystem::Create(const std::string& path) {
  SIMURGH_RETURN_IF_ERROR(Count("create " + path));
  const auto [folder, name] = Locate(path);
  if (folder == nullptr) return Missing(path);
  if (folder->names.contains(name)) {
    return absl::AlreadyExistsError("cannot create " + path + ": File exists");
  }
  SIMURGH_RETURN_IF_ERROR(CheckRoom(path, 0, 1));
  auto node = std::make_shared<Node>();
  ChangeNames(*folder, {{name, node}});
  return std::make_unique<MemoryFile>(*this, path, std::move(node));
}

StatusOr<std::unique_ptr<File>> MemoryFileSystem::Open(const std::string& path) {
  const NodePointer node = Find(path);
  if (node == nullptr || node->is_folder) return Missing(path);
  return std::make_unique<MemoryFile>(*this, path, node);
}

Status MemoryFileSystem::MakeFolder(const std::string& path) {
  SIMURGH_RETURN_IF_ERROR(Count("mkdir " + path));
  const auto [folder, name] = Locate(path);
  if (folder == nullptr) return Missing(path);
  if (!folder->names.contains(name)) {
    SIMURGH_RETURN_IF_ERROR(CheckRoom(path, 0, 1));
    auto node = std::make_shared<Node>();
    node->is_folder = true;
    ChangeNames(*folder, {{name, std::move(node)}});
  }
  folder->synced_names = folder->names;
  folder->changes.clear();
  return absl::OkStatus();
}

Status MemoryFileSystem::SyncFolder(const std::string& path) {
  SIMURGH_RETURN_IF_ERROR(Count("sync folder " + path));
  const NodePointer node = Find(path);
  if (node == nullptr) return Missing(path);
  node->synced_names = node->names;
  node->changes.clear();
  return absl::OkStatus();
}

StatusOr<std::vector<std::string>> MemoryFileSystem::List(const std::string& path) {
  const NodePointer node = Find(path);
  if (node == nullptr || !node->is_folder) return Missing(path);
  std::vector<std::string> names;
  for (const auto& [name, child] : node->names)
    names.push_back(name + (child->is_folder ? "/" : ""));
  return names;
}

Status MemoryFileSystem::Rename(const std::string& from, const std::string& to) {
  SIMURGH_RETURN_IF_ERROR(Count("rename " + from));
  const auto [folder, name] = Locate(from);
  const auto [new_folder, new_name] = Locate(to);
  const NodePointer node = Find(from);
  if (node == nullptr || new_folder == nullptr) return Missing(from);
  const NodePointer old = Find(to);
  if (old != nullptr && old->is_folder && !old->names.empty()) {
    return absl::FailedPreconditionError("cannot rename " + from + ": Directory not empty");
  }
  if (folder == new_folder) {
    ChangeNames(*folder, {{name, nullptr}, {new_name, node}});
  } else {
    ChangeNames(*new_folder, {{new_name, node}});
    ChangeNames(*folder, {{name, nullptr}});
  }
  return absl::OkStatus();
}

Status MemoryFileSystem::Exchange(const std::string& a, const std::string& b) {
  SIMURGH_RETURN_IF_ERROR(Count("exchange " + a));
  const auto [folder_a, name_a] = Locate(a);
  const auto [folder_b, name_b] = Locate(b);
  const NodePointer node_a = Find(a);
  const NodePointer node_b = Find(b);
  if (node_a == nullptr || node_b == nullptr) return Missing(a);
  if (folder_a == folder_b) {
    ChangeNames(*folder_a, {{name_a, node_b}, {name_b, node_a}});
  } else {
    ChangeNames(*folder_a, {{name_a, node_b}});
    ChangeNames(*folder_b, {{name_b, node_a}});
  }
  return absl::OkStatus();
}

StatusOr<uint64_t> MemoryFileSystem::FreeBytes(const std::string& folder) {
  if (Find(folder) == nullptr) return Missing(folder);
  return is_full_ ? 0 : uint64_t{1} << 40;
}

Status MemoryFileSystem::Remove(const std::string& path) {
  const NodePointer node = Find(path);
  if (node == nullptr) return absl::OkStatus();
  if (node->is_folder) {  // Each removal is an operation of its own.
    const auto names = node->names;
    for (const auto& [name, child] : names) SIMURGH_RETURN_IF_ERROR(Remove(path + "/" + name));
  }
  SIMURGH_RETURN_IF_ERROR(Count("remove " + path));
  const auto [folder, name] = Locate(path);
  if (folder != nullptr) ChangeNames(*folder, {{name, nullptr}});  // Else another process did.
  return absl::OkStatus();
}

}  // namespace simurgh::testing
