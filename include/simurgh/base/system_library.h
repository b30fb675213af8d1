#pragma once

#include <functional>
#include <span>
#include <string_view>

#include <dlfcn.h>

#include "simurgh/base/status.h"

namespace simurgh {

// Optional libraries of the system, which are loaded at their first use.

// Finds a function of a loaded library. Returns whether it exists.
template <typename Function>
bool FindFunction(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// Loads the first of `names` for which `find_functions` returns true, and never unloads it. title:
// names the library in errors. Errors: NOT_FOUND with the reason for each of `names`.
//
// Threads: any.
Status LoadLibrary(std::string_view title, std::span<const char* const> names,
                   const std::function<bool(void* library)>& find_functions);

}  // namespace simurgh
