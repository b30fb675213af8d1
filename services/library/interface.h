#pragma once

#include <functional>

#include "base/status.h"

namespace simurgh::library {

// Runs the body of a function of the C interface. Returns its code, and keeps its error for
// simurgh_last_error(). Exceptions become errors. Threads: any.
int Call(const std::function<Status()>& body) noexcept;

// The code of an error. START_AGAIN only for errors that AsStartAgain() has made.
int CodeOf(const Status& status);
Status AsStartAgain(const Status& status);

// Checks the `size` member of a struct that the caller has filled. name: the struct's, for the
// error.
Status CheckSize(uint64_t given, uint64_t known, const char* name);

}  // namespace simurgh::library
