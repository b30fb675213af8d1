#pragma once

#include <functional>
#include <span>
#include <string_view>

#include <dlfcn.h>

#include "simurgh/base/status.h"

namespace simurgh {

// Libraries of the system that a program was built for and may start without: they are loaded when
// they are first needed.

// Whether a loaded library has the function; then it is at `function`.
template <typename Function>
bool FindFunction(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// Loads the first of `names` in which `find_functions` finds all that it looks for, for good.
// title: of the library, for errors. Errors: NOT_FOUND with what is wrong with each of them.
//
// Threads: any.
Status LoadLibrary(std::string_view title, std::span<const char* const> names,
                   const std::function<bool(void* library)>& find_functions);

}  // namespace simurgh
