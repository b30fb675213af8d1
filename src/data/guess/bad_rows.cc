#include "data/guess/bad_rows.h"

#include "absl/strings/str_cat.h"

#include "data/invalid.h"

namespace simurgh {

void BadRows::Add(const Status& problem) {
  if (problem.ok()) return;
  if (count++ == 0) first = std::string(problem.message());
}

Status BadRows::Check(uint64_t good_rows) const {
  constexpr uint64_t kMaxShare = 100;  // 1 of 100.
  const uint64_t rows = good_rows + count;
  if (count * kMaxShare <= rows) return absl::OkStatus();
  if (rows == count || count == 1) return absl::InvalidArgumentError(first);
  return absl::InvalidArgumentError(
      absl::StrCat(first, " (the first of ", count, " bad rows; up to 1 % can be left out)"));
}

Status CheckLength(size_t cells, size_t columns) {
  if (cells == columns) return absl::OkStatus();
  return Invalid(
      "%d %s, but the header has %d columns; correct the row, or quote cells that contain "
      "separators",
      cells, cells == 1 ? "cell" : "cells", columns);
}

}  // namespace simurgh
