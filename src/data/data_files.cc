#include "simurgh/data/data_files.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "simurgh/data/file_identity.h"

namespace simurgh {
namespace {

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

}  // namespace

StatusOr<std::vector<DataFile>> IdentifyFiles(const std::vector<std::string>& paths) {
  std::vector<DataFile> files;
  for (const std::string& path : paths) {
    SIMURGH_ASSIGN_OR_RETURN(const FileIdentity identity, IdentifyFile(path));
    files.push_back({path.substr(path.rfind('/') + 1), identity.bytes, identity.ends});
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

std::string DataFilesText(const std::vector<DataFile>& files) {
  std::string text;
  for (const DataFile& file : files) {
    absl::StrAppend(&text, file.bytes, " ", absl::Hex(file.ends, absl::kZeroPad16), " ", file.name,
                    "\n");
  }
  return text;
}

StatusOr<std::vector<DataFile>> DataFilesFromText(const std::string& text) {
  std::vector<DataFile> files;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    DataFile file;
    if (fields.size() != 3 || !absl::SimpleAtoi(fields[0], &file.bytes) ||
        !absl::SimpleHexAtoi(fields[1], &file.ends)) {
      return absl::DataLossError(
          "it has no valid list of files that were read; use an undamaged copy of the model");
    }
    file.name = fields[2];
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace simurgh
