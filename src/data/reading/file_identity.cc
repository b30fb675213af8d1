#include "data/reading/file_identity.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/file_descriptor.h"
#include "base/hash.h"
#include "base/log.h"
#include "config/uri.h"
#include "data/reading/remote_file.h"

namespace simurgh {
namespace {

int64_t NanosecondsOf(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

constexpr uint64_t kHashedBytes = uint64_t{64} * 1024;  // Bytes at each end of a file.

std::string Difference(const FileIdentity& before, const FileIdentity& now) {
  std::vector<std::string> changes;
  if (before.bytes != now.bytes) {
    changes.push_back(absl::StrCat("size from ", before.bytes, " to ", now.bytes, " bytes"));
  }
  if (before.device != now.device || before.inode != now.inode) {
    changes.emplace_back("inode, by a file in its place");
  }
  if (before.modified_ns != now.modified_ns) changes.emplace_back("modification time");
  if (before.changed_ns != now.changed_ns) changes.emplace_back("change time");
  if (before.ends != now.ends) changes.emplace_back("first or last 64 KiB");
  return absl::StrJoin(changes, ", ");
}

std::string Difference(const DataFile& read, const DataFile& now) {
  if (read.name != now.name) {
    return absl::StrCat("is '", now.name, "', the model has read '", read.name,
                        "' there; list the files in the same order, new ones at the end");
  }
  const std::string change =
      read.bytes != now.bytes
          ? absl::StrCat("has ", now.bytes, " bytes, the model has read ", read.bytes)
          : absl::StrCat("has XXH3 ", absl::Hex(now.ends, absl::kZeroPad16),
                         " of its first and last 64 KiB, the model has read ",
                         absl::Hex(read.ends, absl::kZeroPad16));
  return absl::StrCat("('", now.name, "') has changed: it ", change,
                      "; restore the file and add new rows as a new file at the end of the list");
}

FileIdentity IdentityOf(const RemoteFile& file) {
  return {.bytes = file.bytes, .modified_ns = file.modified_ns};
}

}  // namespace

StatusOr<FileIdentity> IdentifyFile(const std::string& path) {
  if (IsUri(path)) {
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<RemoteFile> files, ListRemoteFiles(path));
    return IdentityOf(files.front());
  }
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  struct stat about{};
  if (::fstat(file.number(), &about) != 0) return ErrnoStatus(errno, path);
  FileIdentity identity{.device = about.st_dev,
                        .inode = about.st_ino,
                        .bytes = static_cast<uint64_t>(about.st_size),
                        .modified_ns = NanosecondsOf(about.st_mtim),
                        .changed_ns = NanosecondsOf(about.st_ctim)};
  std::vector<char> buffer(kHashedBytes);
  for (const uint64_t from :
       {uint64_t{0}, identity.bytes - std::min(identity.bytes, kHashedBytes)}) {
    const ssize_t count =
        ::pread(file.number(), buffer.data(), buffer.size(), static_cast<off_t>(from));
    if (count < 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", path));
    identity.ends = HashBytes({buffer.data(), static_cast<size_t>(count)}, identity.ends);
  }
  return identity;
}

Status FileIdentities::Check(const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(const FileIdentity now, IdentifyFile(path));
  const MutexLock lock(mutex_);
  const auto [entry, is_new] = last_.try_emplace(path, now);
  if (is_new || entry->second == now) return absl::OkStatus();
  const std::string what =
      absl::StrCat(path, " has changed during the run: ", Difference(entry->second, now));
  if (on_change_ == DataConfig::OnChange::kFail) {
    return absl::FailedPreconditionError(absl::StrCat(
        what, "; every epoch must read the same rows: start again, or set data.on_change: warn"));
  }
  spdlog::warn("{}", what);
  entry->second = now;
  return absl::OkStatus();
}

DataFile DataFileOf(const RemoteFile& file) {
  const std::string_view name = WithoutOptions(file.path);
  return {.name = std::string(name.substr(name.rfind('/') + 1)),
          .bytes = file.bytes,
          .modified_ns = file.modified_ns};
}

StatusOr<std::vector<DataFile>> IdentifyFiles(const std::vector<std::string>& paths) {
  std::vector<DataFile> files;
  const auto add = [&files](const std::string& path, const FileIdentity& identity) {
    files.push_back(
        {path.substr(path.rfind('/') + 1), identity.bytes, identity.ends, identity.modified_ns});
  };
  for (const std::string& path : paths) {
    if (IsStream(path)) {
      add(path, {});
    } else if (IsUri(path)) {
      SIMURGH_ASSIGN_OR_RETURN(const std::vector<RemoteFile> remote, ListRemoteFiles(path));
      for (const RemoteFile& file : remote) files.push_back(DataFileOf(file));
    } else {
      SIMURGH_ASSIGN_OR_RETURN(const FileIdentity identity, IdentifyFile(path));
      add(path, identity);
    }
  }
  return files;
}

Status CheckReadFiles(const std::vector<DataFile>& read, const std::vector<DataFile>& files) {
  for (size_t i = 0; i < read.size(); ++i) {
    if (i >= files.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data.train lists ", files.size(), " files, the model has read ", read.size(), "; list '",
          read[i].name, "' in place ", i, " again, and new files at the end"));
    }
    if (read[i] == files[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data.train.", i, " ", Difference(read[i], files[i])));
  }
  return absl::OkStatus();
}

std::string TouchedFiles(const std::vector<DataFile>& read, const std::vector<DataFile>& files) {
  std::vector<std::string> touched;
  for (size_t i = 0; i < std::min(read.size(), files.size()); ++i) {
    if (read[i].modified_ns == 0 || read[i].modified_ns == files[i].modified_ns) continue;
    touched.push_back(absl::StrCat("data.train.", i, " ('", files[i].name, "')"));
  }
  if (touched.empty()) return "";
  return absl::StrCat(
      absl::StrJoin(touched, ", "),
      ": its modification time has changed, not its size or ends; restore it if rows differ (cp -p "
      "keeps the time)");
}

std::string DataFilesText(const std::vector<DataFile>& files) {
  std::string text;
  for (const DataFile& file : files) {
    absl::StrAppend(&text, file.bytes, " ", absl::Hex(file.ends, absl::kZeroPad16));
    if (file.modified_ns != 0) absl::StrAppend(&text, "@", file.modified_ns);
    absl::StrAppend(&text, " ", file.name, "\n");
  }
  return text;
}

StatusOr<std::vector<DataFile>> DataFilesFromText(const std::string& text) {
  std::vector<DataFile> files;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    DataFile file;
    const bool has_fields = fields.size() == 3;
    // Older versions wrote no time.
    const std::vector<std::string> ends =
        absl::StrSplit(has_fields ? fields[1] : "", absl::MaxSplits('@', 1));
    if (!has_fields || !absl::SimpleAtoi(fields[0], &file.bytes) ||
        !absl::SimpleHexAtoi(ends[0], &file.ends) ||
        (ends.size() == 2 && !absl::SimpleAtoi(ends[1], &file.modified_ns))) {
      return absl::DataLossError(
          "it has no valid list of files that were read; use an undamaged copy of the model");
    }
    file.name = fields[2];
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace simurgh
