#include "tests/simulation/process_files.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh::simulation {
namespace {

bool IsAttempt(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.starts_with("step-") && name.find(".tmp-") != std::string::npos;
}

class ProcessFile : public File {
 public:
  ProcessFile(ProcessFiles& files, std::string path, std::unique_ptr<File> file)
      : files_(files), path_(std::move(path)), file_(std::move(file)) {}

  Status Allocate(uint64_t bytes) override {
    SIMURGH_RETURN_IF_ERROR(files_.Begin("allocate", path_, true));
    return file_->Allocate(bytes);
  }
  Status Write(uint64_t offset, std::span<const std::byte> bytes) override {
    SIMURGH_RETURN_IF_ERROR(files_.Begin("write", path_, true));
    return file_->Write(offset, bytes);
  }
  Status Sync() override {
    const Status begun = files_.Begin("sync", path_, true);
    if (!begun.ok()) files_.LoseUnsynced(path_);
    return begun.ok() ? file_->Sync() : begun;
  }
  StatusOr<uint64_t> Size() override { return file_->Size(); }
  Status Read(uint64_t offset, std::span<std::byte> bytes) override {
    return file_->Read(offset, bytes);
  }

 private:
  ProcessFiles& files_;
  const std::string path_;
  const std::unique_ptr<File> file_;
};

}  // namespace

Status ProcessFiles::Begin(const char* operation, const std::string& path, bool changes) {
  const Status dead = absl::CancelledError(process_.name + " is dead");
  if (!process_.alive) return dead;
  if (Fiber::Current() != nullptr && !world_.Pause(process_, 1 + world_.random.Below(30))) {
    return dead;
  }
  if (!changes) return absl::OkStatus();
  world_.Note(absl::StrCat(process_.name, ": ", operation, " ", path));
  if (world_.Chance(disk_.error_one_in)) {
    world_.Note("  fails");
    return absl::UnavailableError(
        absl::StrCat("cannot ", operation, " ", path, ": input/output error"));
  }
  if (disk_.on_operation) disk_.on_operation();
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<File>> ProcessFiles::Create(const std::string& path) {
  SIMURGH_RETURN_IF_ERROR(Begin("create", path, true));
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk_.files.Create(path));
  return std::make_unique<ProcessFile>(*this, path, std::move(file));
}

StatusOr<std::unique_ptr<File>> ProcessFiles::Open(const std::string& path) {
  SIMURGH_RETURN_IF_ERROR(Begin("open", path, false));
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk_.files.Open(path));
  return std::make_unique<ProcessFile>(*this, path, std::move(file));
}

Status ProcessFiles::MakeFolder(const std::string& path) {
  SIMURGH_RETURN_IF_ERROR(Begin("make folder", path, true));
  return disk_.files.MakeFolder(path);
}

Status ProcessFiles::SyncFolder(const std::string& path) {
  SIMURGH_RETURN_IF_ERROR(Begin("sync folder", path, true));
  return disk_.files.SyncFolder(path);
}

StatusOr<std::vector<std::string>> ProcessFiles::List(const std::string& path) {
  SIMURGH_RETURN_IF_ERROR(Begin("list", path, false));
  return disk_.files.List(path);
}

Status ProcessFiles::Rename(const std::string& from, const std::string& to) {
  SIMURGH_RETURN_IF_ERROR(Begin("rename", absl::StrCat(from, " to ", to), true));
  SIMURGH_RETURN_IF_ERROR(disk_.files.Rename(from, to));
  if (IsAttempt(from) && !to.ends_with(".removed")) disk_.on_published(from);
  return absl::OkStatus();
}

Status ProcessFiles::Exchange(const std::string& a, const std::string& b) {
  SIMURGH_RETURN_IF_ERROR(Begin("exchange", absl::StrCat(a, " and ", b), true));
  SIMURGH_RETURN_IF_ERROR(disk_.files.Exchange(a, b));
  if (IsAttempt(a)) disk_.on_published(a);
  return absl::OkStatus();
}

StatusOr<uint64_t> ProcessFiles::FreeBytes(const std::string& folder) {
  SIMURGH_RETURN_IF_ERROR(Begin("examine", folder, false));
  return disk_.files.FreeBytes(folder);
}

// Removes the files of a folder one by one.
Status ProcessFiles::Remove(const std::string& path) {
  const auto names = disk_.files.List(path);
  if (names.ok()) {
    for (const std::string& name : *names) {
      const std::string plain = name.ends_with('/') ? name.substr(0, name.size() - 1) : name;
      SIMURGH_RETURN_IF_ERROR(Remove(absl::StrCat(path, "/", plain)));
    }
  }
  SIMURGH_RETURN_IF_ERROR(Begin("remove", path, true));
  return disk_.files.Remove(path);
}

}  // namespace simurgh::simulation
