#include "retrieval/version_ranking.h"

#include <span>
#include <vector>

#include "retrieval/item_vectors.h"
#include "retrieval/ranking_metrics.h"

#include "config/retrieval.h"

namespace simurgh {

StatusOr<RankingResult> RankVersion(const ModelVersion& version, Predictor& predictor,
                                    const DataConfig& data, const RankedUsers::Open& open,
                                    const OnRankedUser& on_user) {
  const ClusterConfig& config = version.config();
  const ItemsConfig& wanted = config.data.items;
  if (wanted.files.empty()) {
    return absl::InvalidArgumentError(
        "data.items: missing; an evaluation of this model ranks all items; set data.items=FILE, a "
        "file with one row an item");
  }
  SIMURGH_ASSIGN_OR_RETURN(const ItemVectors items,
                           ReadItemVectors(version, config.data, wanted.files, wanted.id));
  std::vector<float> queries;
  std::vector<float> memory;
  const auto on_queries = [&](Batch& batch, std::span<const uint32_t> rows) -> Status {
    SIMURGH_ASSIGN_OR_RETURN(const MatrixView<const float> vectors,
                             VectorsOf(version, predictor, batch, TowerSide::kUser, memory));
    for (const uint32_t row : rows) {
      const std::span<const float> vector = vectors.row(row);
      queries.insert(queries.end(), vector.begin(), vector.end());
    }
    return absl::OkStatus();
  };
  SIMURGH_ASSIGN_OR_RETURN(const RankedUsers users,
                           ReadRankedUsers(config, data, items.ids, open, on_queries));
  SIMURGH_ASSIGN_OR_RETURN(RankingResult result,
                           RankItems({queries.data(), users.size(), items.dim}, items.matrix(),
                                     users.items(), wanted.top, on_user));
  SIMURGH_ASSIGN_OR_RETURN(result.popular_recall, users.PopularRecall());
  return result;
}

}  // namespace simurgh
