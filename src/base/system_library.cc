#include "base/system_library.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace simurgh {
namespace {

constexpr char kVariable[] = "SIMURGH_CUDA_LIBRARIES";
constexpr char kPackages[] = "/usr/local/cuda/lib64";

std::vector<std::string> PathsOf(const std::string& file) {
  std::vector<std::string> paths = {file};
  const char* const named = std::getenv(kVariable);
  for (const auto folder : absl::StrSplit(named == nullptr ? "" : named, ':', absl::SkipEmpty())) {
    paths.push_back(absl::StrCat(folder, "/", file));
  }
  paths.push_back(absl::StrCat(kPackages, "/", file));
  return paths;
}

}  // namespace

Status LoadLibrary(std::string_view title, const std::string& file,
                   const std::function<bool(void* library)>& find_functions) {
  std::string reason;
  for (const std::string& path : PathsOf(file)) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      absl::StrAppend(&reason, reason.empty() ? "" : "; ", error == nullptr ? path : error);
    } else if (find_functions(library)) {
      return absl::OkStatus();
    } else {
      absl::StrAppend(&reason, reason.empty() ? "" : "; ", path, " lacks a function");
      dlclose(library);
    }
  }
  return absl::NotFoundError(absl::StrCat(std::string(title), " cannot be loaded (", reason,
                                          "); add its folder to ", kVariable));
}

}  // namespace simurgh
