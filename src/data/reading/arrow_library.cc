#include "data/reading/arrow_library.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <dlfcn.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace simurgh {
namespace {

constexpr char kLibrary[] = "libsimurgh_arrow.so";
constexpr char kVariable[] = "SIMURGH_ARROW_MODULE";

std::vector<std::string> PlacesOfModule() {
  if (const char* const named = std::getenv(kVariable); named != nullptr && *named != '\0') {
    return {named};
  }
  std::error_code failed;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  std::vector<std::string> places = {(folder / kLibrary).string(),
                                     (folder / "../lib/simurgh" / kLibrary).string()};
  // In another program this code is part of libsimurgh.so, whose folder lies next to that of the
  // programs.
  Dl_info own;
  if (dladdr(reinterpret_cast<const void*>(&PlacesOfModule), &own) != 0 && *own.dli_fname == '/') {
    places.push_back(
        (std::filesystem::path(own.dli_fname).parent_path() / "../bin" / kLibrary).string());
  }
  return places;
}

// Loads the module, which then stays loaded.
StatusOr<const simurgh_arrow_module*> LoadModule() {
  const std::vector<std::string> places = PlacesOfModule();
  std::string found;
  for (const std::string& place : places) {
    if (std::filesystem::exists(place)) {
      found = place;
      break;
    }
  }
  if (found.empty()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "Parquet, Arrow data and object stores need %s, and there is no %s; build it: "
        "scripts/bootstrap.sh "
        "--arrow gets Arrow C++, the next build makes the module; or name it in the environment "
        "variable %s",
        kLibrary, places.front(), kVariable));
  }
  void* const object = dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    const char* const reason = dlerror();
    return absl::FailedPreconditionError(
        absl::StrFormat("%s cannot be loaded: %s; it needs the Arrow libraries that it was built "
                        "with, see scripts/bootstrap.sh --arrow",
                        found, reason == nullptr ? "unknown reason" : reason));
  }
  void* const symbol = dlsym(object, SIMURGH_ARROW_ENTRY);
  const simurgh_arrow_module* const module =
      symbol == nullptr ? nullptr : reinterpret_cast<simurgh_arrow_entry_function>(symbol)();
  if (module == nullptr || module->version != SIMURGH_ARROW_VERSION) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s is not the module of this program's version; build both together", found));
  }
  return module;
}

}  // namespace

Status ModuleMessage::Of(simurgh_arrow_result result) const {
  const absl::string_view bytes(bytes_.data(), strnlen(bytes_.data(), bytes_.size()));
  // The status has the message as one line of printable characters.
  const std::string text =
      absl::StrReplaceAll(absl::CHexEscape(absl::StripTrailingAsciiWhitespace(bytes)),
                          {{"\\n", "; "}, {"\\'", "'"}, {"\\\"", "\""}});
  switch (result) {
    case SIMURGH_ARROW_OK:
    case SIMURGH_ARROW_END:
      return absl::OkStatus();
    case SIMURGH_ARROW_NOT_FOUND:
      return absl::NotFoundError(text);
    case SIMURGH_ARROW_DENIED:
      return absl::PermissionDeniedError(text);
    case SIMURGH_ARROW_FAILED:
      return absl::UnavailableError(text);
    case SIMURGH_ARROW_DAMAGED:
      return absl::DataLossError(text);
    case SIMURGH_ARROW_REFUSED:
      break;
  }
  return absl::FailedPreconditionError(text);
}

StatusOr<const simurgh_arrow_module*> ArrowModule() {
  static const StatusOr<const simurgh_arrow_module*> module = LoadModule();
  return module;
}

}  // namespace simurgh
