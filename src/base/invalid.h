#pragma once

#include "absl/strings/str_format.h"

#include "base/status.h"

namespace simurgh {

// INVALID_ARGUMENT; the message is formatted as by absl::StrFormat.
template <typename... Args>
Status Invalid(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrFormat(format, args...));
}

}  // namespace simurgh
