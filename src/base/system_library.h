#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <dlfcn.h>

#include "base/status.h"

namespace simurgh {

// Libraries of CUDA, which are loaded at their first use.

// Finds a function of a loaded library. Returns whether it exists.
template <typename Function>
bool FindFunction(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// Loads the first library of this file name for which `find_functions` returns true, and never
// unloads it. Searches in this order: the dynamic loader's path, folders in the environment
// variable SIMURGH_CUDA_LIBRARIES, the folder of CUDA's packages. Colons separate the variable's
// folders. title: names the library in errors. Errors: NOT_FOUND with the reason for each place.
//
// Threads: any.
Status LoadLibrary(std::string_view title, const std::string& file,
                   const std::function<bool(void* library)>& find_functions);

}  // namespace simurgh
