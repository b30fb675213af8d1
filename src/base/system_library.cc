#include "simurgh/base/system_library.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace simurgh {

Status LoadLibrary(std::string_view title, std::span<const char* const> names,
                   const std::function<bool(void* library)>& find_functions) {
  std::string reason;
  for (const char* name : names) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      absl::StrAppend(&reason, reason.empty() ? "" : "; ", error == nullptr ? name : error);
    } else if (find_functions(library)) {
      return absl::OkStatus();
    } else {
      absl::StrAppend(&reason, reason.empty() ? "" : "; ", name, " lacks a function");
      dlclose(library);
    }
  }
  return absl::NotFoundError(absl::StrCat(std::string(title), " cannot be loaded (", reason,
                                          "); add its folder to LD_LIBRARY_PATH"));
}

}  // namespace simurgh
