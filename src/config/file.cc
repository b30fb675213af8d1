#include "config/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include <glob.h>

#include "absl/strings/str_cat.h"

#include "config/uri.h"

namespace simurgh {
namespace {

constexpr char kFolder[] = "it is a folder";

// Returns why a file cannot be read, or an empty string. Checks the type first: opening a pipe
// would wait for its writer and lose data.
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

void Resolve(MapReader& in, const char* key, const std::string& folder, std::string* path) {
  if (path->starts_with("~")) {
    in.Error(key, absl::StrCat("'", *path, "' begins with ~, which is not expanded"),
             "write out the path of the home folder");
  }
  *path = PathIn(folder, *path);
}

}  // namespace

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string PathIn(const std::string& folder, const std::string& path) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

bool IsPattern(const std::string& path) { return path.find_first_of("*?[") != path.npos; }

std::vector<std::string> FilesOfPattern(const std::string& path) {
  std::error_code error;
  if (!IsPattern(path) || std::filesystem::exists(path, error)) return {path};
  glob_t found{};
  std::vector<std::string> files;
  if (glob(path.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  std::ranges::sort(files);
  return files.empty() ? std::vector{path} : files;
}

std::vector<std::string> ParquetFilesIn(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  std::error_code failed;
  for (auto entry = fs::recursive_directory_iterator(folder, failed);
       !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    const std::string name = entry->path().filename();
    if (name.starts_with('.') || name.starts_with('_')) {  // Other programs' unfinished files.
      entry.disable_recursion_pending();
      continue;
    }
    if (entry->path().extension() == ".parquet" && entry->is_regular_file(failed)) {
      files.push_back(entry->path().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

void ReadPath(MapReader& in, const char* key, const char* meaning, const char* type,
              const std::string& folder, Need need, std::string* path) {
  in.Text(key, meaning, path, type, need);
  if (path->empty()) return;
  if (IsUri(*path)) {
    in.Error(key, "a URI, which is not read here", "give a path on this machine");
    return;
  }
  Resolve(in, key, folder, path);
}

void ReadModelFolder(MapReader& in, const char* key, const char* meaning, const std::string& folder,
                     std::string* path) {
  in.Text(key, meaning, path, "path of a folder, or s3://BUCKET/PREFIX", Need::kOptional);
  if (path->empty()) return;
  if (!IsUri(*path)) return Resolve(in, key, folder, path);
  if (const std::optional<UriError> error = BucketPathError(*path)) {
    in.Error(key, error->problem, error->remedy);
    return;
  }
  *path = BucketPath(*path);
}

bool ResolveFile(MapReader& in, const std::string& key, const std::string& folder,
                 std::string* file) {
  const bool has_tilde = file->starts_with("~/");
  *file = PathIn(folder, *file);
  const std::string problem = FileProblem(*file);
  if (problem.empty()) return true;
  in.Error(key, absl::StrCat("cannot read '", *file, "': ", problem),
           IsPattern(*file) ? "no file matches the pattern; correct it"
           : has_tilde      ? "~ is not expanded; write out the path of the home folder"
           : problem == kFolder
               ? "name the files in it"
               : "give a path that is absolute or relative to the folder of the YAML file");
  return false;
}

bool ResolveInputFile(MapReader& in, const std::string& key, const std::string& folder,
                      std::string* file) {
  if (in.context()->input_files == InputFiles::kCheck) return ResolveFile(in, key, folder, file);
  *file = PathIn(folder, *file);
  return false;
}

}  // namespace simurgh
