#pragma once

#include <cstdint>
#include <string>

#include "simurgh/base/status.h"

namespace simurgh {

// Rows that cannot be used, of one file.
struct BadRows {
  uint64_t count = 0;
  std::string first;  // File, line and problem.

  // Ignores OK.
  void Add(const Status& problem);
  // INVALID_ARGUMENT if more than 1 % of the rows are bad.
  Status Check(uint64_t good_rows) const;
};

}  // namespace simurgh
