#include "config/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include <glob.h>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

constexpr char kFolder[] = "it is a folder";

// Why a file cannot be read, or an empty string. Checks the type first: opening a pipe would wait
// for its writer and lose data.
std::string FileProblem(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) return kFolder;
  if (std::filesystem::is_other(status)) {
    return "it is a pipe, a socket or a device";
  }
  errno = 0;
  const std::ifstream file(path, std::ios::binary);
  return file ? "" : std::strerror(errno);
}

}  // namespace

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string PathIn(const std::string& folder, const std::string& path) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

bool ResolveFile(MapReader& in, const std::string& key, const std::string& folder,
                 std::string* file) {
  const bool has_tilde = file->starts_with("~/");
  *file = PathIn(folder, *file);
  const std::string problem = FileProblem(*file);
  if (problem.empty()) return true;
  in.Error(key, absl::StrCat("cannot read '", *file, "': ", problem),
           has_tilde ? "~ is not expanded; write out the path of the home folder"
           : problem == kFolder
               ? "name the files in it"
               : "give a path that is absolute or relative to the folder of the YAML file");
  return false;
}

void ExpandFiles(MapReader& in, const std::string& key, const std::string& folder,
                 std::vector<std::string>* files) {
  namespace fs = std::filesystem;
  std::vector<std::string> all;
  for (size_t i = 0; i < files->size(); ++i) {
    const std::string& name = (*files)[i];
    const std::string path = PathIn(folder, name);
    std::vector<std::string> found;
    std::error_code failed;
    if (IsRemoteFile(name) || IsStream(name)) {
      all.push_back(name);
      continue;
    }
    if (fs::is_directory(path, failed)) {
      for (auto entry = fs::recursive_directory_iterator(path, failed);
           !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
        if (entry->path().extension() == ".parquet" && entry->is_regular_file(failed)) {
          found.push_back(entry->path().string());
        }
      }
    } else if (name.find_first_of("*?[") != name.npos && !fs::exists(path, failed)) {
      glob_t matches{};
      if (::glob(path.c_str(), 0, nullptr, &matches) == 0) {
        found.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
      }
      ::globfree(&matches);
    } else {
      all.push_back(name);
      continue;
    }
    std::ranges::sort(found);
    if (found.empty()) {
      in.Error(absl::StrCat(key, ".", i), absl::StrCat("no file is in '", path, "'"),
               "name a folder with .parquet files, or correct the pattern");
    }
    all.insert(all.end(), found.begin(), found.end());
  }
  *files = std::move(all);
}

bool ResolveInputFile(MapReader& in, const std::string& key, const std::string& folder,
                      std::string* file) {
  if (in.context()->input_files == InputFiles::kCheck) return ResolveFile(in, key, folder, file);
  *file = PathIn(folder, *file);
  return false;
}

}  // namespace simurgh
