#include "model/held_files.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <sys/resource.h>

#include "model/checkpoint_files.h"

namespace simurgh {
namespace {

// Reads at a position of the caller's, so that readers can share an open file.
class SharedFile : public File {
 public:
  explicit SharedFile(std::shared_ptr<File> file) : file_(std::move(file)) {}

  Status Allocate(uint64_t bytes) override { return file_->Allocate(bytes); }
  Status Write(uint64_t offset, std::span<const std::byte> bytes) override {
    return file_->Write(offset, bytes);
  }
  Status Sync() override { return file_->Sync(); }
  StatusOr<uint64_t> Size() override { return file_->Size(); }
  Status Read(uint64_t offset, std::span<std::byte> bytes) override {
    return file_->Read(offset, bytes);
  }
  void StartRead(uint64_t offset, uint64_t bytes) override { file_->StartRead(offset, bytes); }
  StatusOr<std::shared_ptr<const std::byte>> Map(uint64_t offset, uint64_t bytes) override {
    return file_->Map(offset, bytes);
  }

 private:
  const std::shared_ptr<File> file_;
};

}  // namespace

HeldFiles::HeldFiles(FileSystem& below) : below_(below) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // A file that cannot be opened is an error of Hold().
}

Status HeldFiles::Hold(const std::string& path) {
  StatusOr<std::unique_ptr<File>> file = below_.Open(path);
  if (file.ok()) {
    files_[path] = *std::move(file);
    return absl::OkStatus();
  }
  return IsDamage(file.status()) ? absl::OkStatus() : file.status();
}

StatusOr<std::unique_ptr<File>> HeldFiles::Create(const std::string& path) {
  return below_.Create(path);
}

StatusOr<std::unique_ptr<File>> HeldFiles::Open(const std::string& path) {
  const auto held = files_.find(path);
  if (held == files_.end()) return below_.Open(path);
  return std::make_unique<SharedFile>(held->second);
}

}  // namespace simurgh
