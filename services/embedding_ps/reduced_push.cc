#include "services/embedding_ps/reduced_push.h"

#include <map>

#include "absl/container/flat_hash_map.h"

#include "simurgh/table/row_numbers.h"

namespace simurgh {
namespace {

// Partial sums of one table.
struct Sums {
  ReducedPush::TableRows rows;
  absl::flat_hash_map<uint64_t, size_t> places;  // Id -> row.
  float learning_rate = 0;
  size_t dim = 0;
};

void AddGroup(const PushGroup& group, Sums& sums) {
  std::vector<float> gradient(sums.dim);
  for (size_t i = 0; i < group.ids.size(); ++i) {
    WidenRow(group.gradients.precision(), group.gradients.row(i), gradient);
    const auto [place, is_new] = sums.places.try_emplace(group.ids[i], sums.rows.ids.size());
    if (is_new) {
      sums.rows.ids.push_back(group.ids[i]);
      sums.rows.gradients.insert(sums.rows.gradients.end(), gradient.begin(), gradient.end());
      continue;
    }
    float* sum = sums.rows.gradients.data() + place->second * sums.dim;
    for (size_t d = 0; d < sums.dim; ++d) sum[d] += gradient[d];
  }
}

}  // namespace

std::shared_ptr<const ReducedPush> ReducePushes(std::span<const HeldPush> pushes) {
  std::map<uint32_t, Sums> tables;
  for (const HeldPush& push : pushes) {
    for (const PushGroup& group : push.groups) {
      const auto [table, is_new] = tables.try_emplace(group.table);
      if (is_new) {
        table->second.learning_rate = group.learning_rate;
        table->second.dim = group.gradients.columns();
      }
      AddGroup(group, table->second);
    }
  }
  auto summed = std::make_shared<ReducedPush>();
  summed->tables.reserve(tables.size());
  for (auto& [table, sums] : tables) {
    const ReducedPush::TableRows& rows = summed->tables.emplace_back(std::move(sums.rows));
    summed->groups.push_back({.table = table,
                              .learning_rate = sums.learning_rate,
                              .ids = rows.ids,
                              .gradients = {rows.gradients.data(), rows.ids.size(), sums.dim}});
  }
  return summed;
}

}  // namespace simurgh
