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
    node_->content.resize(std::max<size_t>(node_->content.size(), bytes));
    return absl::OkStatus();
  }
  Status Write(uint64_t offset, std::span<const std::byte> bytes) override {
    SIMURGH_RETURN_IF_ERROR(files_.Count("write " + path_));
    node_->content.resize(std::max<size_t>(node_->content.size(), offset + bytes.size()));
    if (!bytes.empty()) std::memcpy(node_->content.data() + offset, bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  Status Sync() override {
    SIMURGH_RETURN_IF_ERROR(files_.Count("sync " + path_));
    node_->synced_content = node_->content;
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
  const auto [entry, is_new] = folder->names.emplace(name, std::make_shared<Node>());
  if (!is_new) return absl::AlreadyExistsError("cannot create " + path + ": File exists");
  return std::make_unique<MemoryFile>(*this, path, entry->second);
}

StatusOr<std::unique_ptr<File>> MemoryFileSystem::Open(const std::string& path) {
  const NodePointer node = Find(path);
  if (node == nullptr || node->is_folder) return Missing(path);
  return std::make_unique<MemoryFile>(*this, path, node);
}

Status MemoryFileSystem::MakeFolder(const std::string& path) {
  SIMURGH_RETURN_IF_ERROR(Count("mkdir " + path));
  Node* folder = root_.get();
  for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    NodePointer& child = folder->names[std::string(part)];
    if (child == nullptr) {
      child = std::make_shared<Node>();
      child->is_folder = true;
      folder->synced_names[std::string(part)] = child;
    }
    folder = child.get();
  }
  return absl::OkStatus();
}

Status MemoryFileSystem::SyncFolder(const std::string& path) {
  SIMURGH_RETURN_IF_ERROR(Count("sync folder " + path));
  const NodePointer node = Find(path);
  if (node == nullptr) return Missing(path);
  node->synced_names = node->names;
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
  new_folder->names[new_name] = node;
  folder->names.erase(name);
  return absl::OkStatus();
}

Status MemoryFileSystem::Exchange(const std::string& a, const std::string& b) {
  SIMURGH_RETURN_IF_ERROR(Count("exchange " + a));
  const auto [folder_a, name_a] = Locate(a);
  const auto [folder_b, name_b] = Locate(b);
  if (Find(a) == nullptr || Find(b) == nullptr) return Missing(a);
  std::swap(folder_a->names[name_a], folder_b->names[name_b]);
  return absl::OkStatus();
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
  folder->names.erase(name);
  return absl::OkStatus();
}

}  // namespace simurgh::testing
