#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "tensor/matrix_view.h"
#include "train/evaluator.h"

namespace simurgh {

// The items of one user, by their positions, ascending and each once.
struct UserItems {
  std::vector<uint32_t> relevant;
  std::vector<uint32_t> seen = {};  // They are not ranked. None of them is relevant.
  uint32_t unknown = 0;             // Relevant items that are not among the items.
};

// Gets the metrics of one user, in the order of the users.
using OnRankedUser = std::function<void(const RankingResult& user)>;

// Returns how products of vectors rank all items for each user; see RankingResult. Each user has a
// relevant or unknown item. Shape: users (U, D), items (N, D). top: lengths of lists.
// on_user: may be empty.
//
// Computes exact products, by blocks, on this thread's compute threads. The sums are in the order
// of the users, so results do not depend on the number of threads.
// Memory: 64 MiB of scores, or 4 bytes for each item if that is more.
// Errors: INTERNAL when oneDNN fails; FAILED_PRECONDITION for a score that is not finite.
StatusOr<RankingResult> RankItems(MatrixView<const float> users, MatrixView<const float> items,
                                  std::span<const UserItems> of_users,
                                  std::span<const uint32_t> top,
                                  const OnRankedUser& on_user = nullptr);

}  // namespace simurgh
