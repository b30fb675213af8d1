#include "model/file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/file_descriptor.h"
#include "base/thread.h"
#include "config/uri.h"
#include "model/bucket_files.h"

namespace simurgh {
namespace {

Status Failed(const char* what, const std::string& path) {
  const int error = errno;  // Read before anything below changes it.
  return ErrnoStatus(error, absl::StrCat("cannot ", what, " ", path));
}

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

class RealFile : public File {
 public:
  RealFile(FileDescriptor file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  Status Allocate(uint64_t bytes) override;
  Status Write(uint64_t offset, std::span<const std::byte> bytes) override;
  Status Sync() override {
    return ::fsync(file_.number()) == 0 ? absl::OkStatus() : Failed("sync", path_);
  }
  // An error shows when the file is synced.
  void StartWriteBack(uint64_t offset, uint64_t bytes) override {
    ::sync_file_range(file_.number(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                      SYNC_FILE_RANGE_WRITE);
  }
  StatusOr<uint64_t> Size() override {
    struct stat about{};
    if (::fstat(file_.number(), &about) != 0) return Failed("examine", path_);
    return static_cast<uint64_t>(about.st_size);
  }
  Status Read(uint64_t offset, std::span<std::byte> bytes) override;
  void StartRead(uint64_t offset, uint64_t bytes) override {
    if (bytes == 0) return;  // The system would read all up to the file's end.
    ::posix_fadvise(file_.number(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                    POSIX_FADV_WILLNEED);
  }
  StatusOr<std::shared_ptr<const std::byte>> Map(uint64_t offset, uint64_t bytes) override;

 private:
  const FileDescriptor file_;
  const std::string path_;
};

Status RealFile::Allocate(uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  int error = 0;
  do {
    error = ::fallocate(file_.number(), 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == 0) return absl::OkStatus();
  struct statvfs about{};
  if (::fstatvfs(file_.number(), &about) != 0) return Failed("examine the file system of", path_);
  const uint64_t free = uint64_t{about.f_bavail} * about.f_frsize;
  // Some network file systems cannot reserve room.
  if (error == EOPNOTSUPP && free >= bytes) return absl::OkStatus();
  if (error == ENOSPC || error == EDQUOT || error == EOPNOTSUPP) {
    return DiskFullError(ParentOf(path_), path_, bytes, free);
  }
  errno = error;
  return Failed("reserve room for", path_);
}

Status RealFile::Write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(file_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno != EINTR) return Failed("write", path_);
    if (count <= 0) continue;
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

Status RealFile::Read(uint64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(file_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno != EINTR) return Failed("read", path_);
    if (count == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": the file ends at byte ", offset, ", ",
                                              bytes.size(), " bytes too early"));
    }
    if (count < 0) continue;
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<const std::byte>> RealFile::Map(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return std::shared_ptr<const std::byte>();
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t before = offset % page;  // Mappings begin at whole pages.
  const size_t length = before + bytes;
  void* const memory = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file_.number(),
                              static_cast<off_t>(offset - before));
  if (memory == MAP_FAILED) return Failed("map", path_);
  ::madvise(memory, length, MADV_RANDOM);  // Only a hint: neighbours are not read.
  return std::shared_ptr<const std::byte>(
      static_cast<const std::byte*>(memory) + before,
      [memory, length](const std::byte* /*begin*/) { ::munmap(memory, length); });
}

StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, int flags, const char* what) {
  constexpr mode_t kReadableByAll = 0644;
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, kReadableByAll));
  if (!file.valid()) return Failed(what, path);
  struct stat about{};
  if (::fstat(file.number(), &about) != 0) return Failed("examine", path);
  if (!S_ISREG(about.st_mode)) return absl::DataLossError(path + ": not a regular file");
  return std::make_unique<RealFile>(std::move(file), path);
}

Status Result(const std::error_code& error, const char* what, const std::string& path) {
  return error ? ErrnoStatus(error.value(), absl::StrCat("cannot ", what, " ", path))
               : absl::OkStatus();
}

// Creates a folder. A folder that exists is no error.
Status CreateFolder(const std::string& path) {
  constexpr mode_t kOfAll = 0755;
  if (::mkdir(path.c_str(), kOfAll) == 0) return absl::OkStatus();
  const int problem = errno;
  std::error_code ignored;
  // Another process may create the folder at the same time.
  const bool exists = problem == EEXIST && std::filesystem::is_directory(path, ignored);
  errno = problem;
  return exists ? absl::OkStatus() : Failed("create folder", path);
}

// Number of threads that wait for the disk.
size_t ThreadsFor(size_t calls) {
  constexpr size_t kThreads = 32;
  constexpr size_t kPerThread = 4;
  return std::min(kThreads, calls / kPerThread);
}

class RealFileSystem : public FileSystem {
 public:
  StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    return OpenFile(path, O_RDWR | O_CREAT | O_EXCL, "create");
  }
  StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    // Without O_NONBLOCK the opening of a pipe waits for a writer.
    return OpenFile(path, O_RDONLY | O_NONBLOCK, "open");
  }
  Status MakeFolder(const std::string& path) override {
    SIMURGH_RETURN_IF_ERROR(CreateFolder(path));
    return SyncFolder(ParentOf(path));
  }
  Status MakeFoldersIn(const std::string& folder, std::span<const std::string> names) override {
    for (const std::string& name : names) {
      SIMURGH_RETURN_IF_ERROR(CreateFolder(absl::StrCat(folder, "/", name)));
    }
    return names.empty() ? absl::OkStatus() : SyncFolder(folder);
  }
  Status SyncFiles(std::span<File* const> files) override {
    return ForEachAtOnce(files.size(), ThreadsFor(files.size()),
                         [&](size_t i) { return files[i]->Sync(); });
  }
  Status SyncFolders(std::span<const std::string> paths) override {
    return ForEachAtOnce(paths.size(), ThreadsFor(paths.size()),
                         [&](size_t i) { return SyncFolder(paths[i]); });
  }
  Status SyncFolder(const std::string& path) override {
    const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) return Failed("open folder", path);
    return ::fsync(folder.number()) == 0 ? absl::OkStatus() : Failed("sync folder", path);
  }
  StatusOr<std::vector<std::string>> List(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code ignored;
      names.push_back(entry->path().filename().string() +
                      (entry->is_directory(ignored) ? "/" : ""));
    }
    SIMURGH_RETURN_IF_ERROR(Result(error, "list folder", path));
    std::sort(names.begin(), names.end());
    return names;
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return ::rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : Failed("rename", from);
  }
  Status Exchange(const std::string& a, const std::string& b) override {
    return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0
               ? absl::OkStatus()
               : Annotate(Failed("replace", b), "move it away and try again");
  }
  Status Remove(const std::string& path) override {
    std::error_code error;
    do {
      std::filesystem::remove_all(path, error);
    } while (error == std::errc::no_such_file_or_directory);  // Another process removes it, too.
    return Result(error, "remove", path);
  }
  StatusOr<uint64_t> FreeBytes(const std::string& folder) override {
    struct statvfs about{};
    if (::statvfs(folder.c_str(), &about) != 0) return Failed("examine the file system of", folder);
    return uint64_t{about.f_bavail} * about.f_frsize;
  }
};

}  // namespace

Status DiskFullError(const std::string& folder, std::string_view what, uint64_t needed,
                     uint64_t free) {
  return absl::ResourceExhaustedError(
      absl::StrCat(folder, ": the disk is full: ", std::string(what), " needs ", needed,
                   " bytes, and ", free, " are free; free some, or use another folder"));
}

FileSystem& FileSystem::Real() {
  static RealFileSystem real;
  return real;
}

FileSystem& FileSystem::For(const std::string& path, FileSystem& local) {
  return IsUri(path) ? BucketFilesFor(ModelFolderOf(BucketPath(path))) : local;
}

StatusOr<std::shared_ptr<const std::byte>> File::Map(uint64_t /*offset*/, uint64_t /*bytes*/) {
  return absl::UnimplementedError("this file cannot be mapped");
}

Status FileSystem::MakeFoldersIn(const std::string& folder, std::span<const std::string> names) {
  for (const std::string& name : names) {
    SIMURGH_RETURN_IF_ERROR(MakeFolder(absl::StrCat(folder, "/", name)));
  }
  return absl::OkStatus();
}

Status FileSystem::SyncFiles(std::span<File* const> files) {
  for (File* const file : files) SIMURGH_RETURN_IF_ERROR(file->Sync());
  return absl::OkStatus();
}

Status FileSystem::SyncFolders(std::span<const std::string> paths) {
  for (const std::string& path : paths) SIMURGH_RETURN_IF_ERROR(SyncFolder(path));
  return absl::OkStatus();
}

Status FileSystem::MakeFolders(const std::string& path) {
  Status made = MakeFolder(path);
  if (!absl::IsNotFound(made) || path.find('/', 1) == std::string::npos) return made;
  SIMURGH_RETURN_IF_ERROR(MakeFolders(ParentOf(path)));
  return MakeFolder(path);
}

Status FileSystem::WriteFile(const std::string& path, std::string_view content,
                             std::string_view suffix, absl::FunctionRef<Status()> may_rename) {
  const std::string temporary = absl::StrCat(path, std::string(suffix));
  SIMURGH_RETURN_IF_ERROR(Remove(temporary));
  SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, Create(temporary));
  Status done = file->Write(0, std::as_bytes(std::span(content)));
  if (done.ok()) done = file->Sync();
  if (done.ok()) done = may_rename();
  if (done.ok()) done = Rename(temporary, path);
  if (!done.ok()) Remove(temporary).IgnoreError();
  return done;
}

StatusOr<std::string> FileSystem::ReadFile(const std::string& path, uint64_t max_bytes) {
  SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, Open(path));
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
  if (bytes > max_bytes) {
    return absl::OutOfRangeError(
        absl::StrCat(path, ": ", bytes, " bytes are too many; at most ", max_bytes, " are read"));
  }
  std::string content(bytes, '\0');
  SIMURGH_RETURN_IF_ERROR(file->Read(0, std::as_writable_bytes(std::span(content))));
  return content;
}

}  // namespace simurgh
