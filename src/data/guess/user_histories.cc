#include "data/guess/user_histories.h"

#include <algorithm>

#include "data/reading/csv_cells.h"

namespace simurgh {

void UserHistories::Sort() {
  for (auto& [user, rows] : users_) std::ranges::sort(rows, IsEarlier);
}

std::vector<uint32_t> UserHistories::Before(uint64_t user, double time, uint64_t row,
                                            uint32_t item) const {
  std::vector<uint32_t> items;
  const auto found = users_.find(user);
  if (found == users_.end()) return items;
  const std::vector<Positive>& rows = found->second;
  auto next = std::ranges::lower_bound(rows, Positive{time, row, item}, IsEarlier);
  while (next != rows.begin() && items.size() < kMost) {
    --next;
    if (next->item != item) items.push_back(next->item);
  }
  return items;
}

char SeparatorOf(const std::vector<std::string_view>& ids) {
  // Readers remove brackets of lists that blanks separate.
  for (const std::string_view taken : {" \t[", "|", ";", "^"}) {
    const auto has = [&](std::string_view id) { return id.find_first_of(taken) != id.npos; };
    if (std::ranges::none_of(ids, has)) return taken[0];
  }
  return kListSeparator;
}

}  // namespace simurgh
