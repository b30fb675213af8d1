#include "data/guess/bad_rows.h"

#include "absl/strings/str_cat.h"

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

}  // namespace simurgh
