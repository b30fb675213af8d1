#include "config/file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

// What keeps a file from being read, or nothing.
std::string FileProblem(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return "it is a folder";
  errno = 0;
  const std::ifstream file(path, std::ios::binary);
  return file ? "" : std::strerror(errno);
}

}  // namespace

bool ResolveFile(MapReader& in, const std::string& key, const std::string& folder,
                 std::string* file) {
  *file = (std::filesystem::path(folder) / *file).lexically_normal().string();
  const std::string problem = FileProblem(*file);
  if (problem.empty()) return true;
  in.Error(key, absl::StrCat("cannot read '", *file, "': ", problem),
           "give a path that is absolute or relative to the folder of the YAML file");
  return false;
}

}  // namespace simurgh
