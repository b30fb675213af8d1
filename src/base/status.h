#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace simurgh {

using absl::Status;
using absl::StatusOr;

// Prefixes the message of an error with `context` and ": "; keeps its payloads.
Status Annotate(const Status& status, std::string_view context);

// Returns what to do about an errno of exhausted files, threads or memory, after "; ". Returns ""
// for another errno.
const char* RemedyOf(int error);

// Returns absl::ErrnoToStatus(error, message) with the remedy appended to the message.
Status ErrnoStatus(int error, std::string_view message);

}  // namespace simurgh

// Returns the status of `expression` from the enclosing function unless it is ok.
#define SIMURGH_RETURN_IF_ERROR(expression)                                     \
  do {                                                                          \
    if (::absl::Status simurgh_status_ = (expression); !simurgh_status_.ok()) { \
      return simurgh_status_;                                                   \
    }                                                                           \
  } while (false)

#define SIMURGH_CONCAT_INNER_(a, b) a##b
#define SIMURGH_CONCAT_(a, b) SIMURGH_CONCAT_INNER_(a, b)

// SIMURGH_ASSIGN_OR_RETURN(auto value, Compute()): assigns the value, or returns the error.
#define SIMURGH_ASSIGN_OR_RETURN(declaration, expression) \
  SIMURGH_ASSIGN_OR_RETURN_(SIMURGH_CONCAT_(simurgh_result_, __LINE__), declaration, expression)
#define SIMURGH_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return std::move(result).status();             \
  declaration = std::move(result).value()
