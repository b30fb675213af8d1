#include "services/simurgh/run_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "config/uri.h"

namespace simurgh {

StatusOr<std::unique_ptr<RunFolder>> RunFolder::Create(const std::string& given) {
  std::error_code error;
  std::string path = given;
  bool is_new = true;
  if (given.empty()) {
    path = std::filesystem::temp_directory_path(error).string() + "/simurgh-train-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(
          absl::StrCat(path, ": cannot create the folder: ", std::strerror(errno),
                       "; set TMPDIR, or use --logs FOLDER"));
    }
  } else {
    is_new = std::filesystem::create_directories(path, error);
    path = std::filesystem::absolute(path).string();
  }
  SIMURGH_ASSIGN_OR_RETURN(FileDescriptor lock, Lock(path));
  return std::unique_ptr<RunFolder>(new RunFolder(path, std::move(lock), is_new, given.empty()));
}

StatusOr<FileDescriptor> RunFolder::Lock(const std::string& path) {
  FileDescriptor lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.valid()) {
    return absl::InvalidArgumentError(absl::StrCat("--logs ", path,
                                                   ": cannot use it: ", std::strerror(errno),
                                                   "; name a folder that you may write"));
  }
  if (::flock(lock.number(), LOCK_EX | LOCK_NB) == 0) return lock;
  return absl::InvalidArgumentError(
      absl::StrCat("--logs ", path, ": another simurgh train uses it; name another folder"));
}

Status RunFolder::WriteToken() const {
  char secret[32];
  std::string text;
  if (::getrandom(secret, sizeof(secret), 0) == sizeof(secret)) {
    text = absl::StrCat(absl::BytesToHexString({secret, sizeof(secret)}), "\n");
  }
  ::unlink(token().c_str());  // A run that was killed may have left its token.
  const FileDescriptor file(::open(token().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.valid() && !text.empty() &&
      ::write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(token(),
                                                 ": cannot write it: ", std::strerror(errno),
                                                 "; use --logs with a folder that you may write"));
}

StatusOr<FileDescriptor> LockModel(const std::string& model, bool alone) {
  if (IsUri(model)) return FileDescriptor();
  FileDescriptor lock(::open(model.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int kind = alone ? LOCK_EX : LOCK_SH;
  if (lock.valid() && ::flock(lock.number(), kind | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::InvalidArgumentError(absl::StrCat(
        model, ": another simurgh train or update uses it; wait until that ends, or stop it"));
  }
  return lock;
}

}  // namespace simurgh
