#pragma once

#include <cstdint>

#include "retrieval/ranked_users.h"
#include "retrieval/ranking_metrics.h"

#include "base/status.h"
#include "config/cluster_config.h"
#include "predict/model_version.h"
#include "predict/predictor.h"
#include "train/evaluator.h"

namespace simurgh {

// Evaluates a version of a model by rankings of the items of its data.items, see RankingResult.
// data: format of the rows that `open` opens. predictor: fits the version. on_user: may be empty.
// Errors: INVALID_ARGUMENT for a configuration without data.items; those of ReadItemVectors(),
// ReadRankedUsers() and RankItems().
StatusOr<RankingResult> RankVersion(const ModelVersion& version, Predictor& predictor,
                                    const DataConfig& data, const RankedUsers::Open& open,
                                    const OnRankedUser& on_user = nullptr);

}  // namespace simurgh
