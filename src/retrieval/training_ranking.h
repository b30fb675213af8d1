#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "retrieval/ranked_users.h"

#include "base/status.h"
#include "collective/collective.h"
#include "config/cluster_config.h"
#include "data/reading/batch_reader.h"
#include "nn/dense_network.h"
#include "train/evaluator.h"
#include "train/ports.h"
#include "train/trainer.h"

namespace simurgh {

// Returns whether evaluations of a configuration rank the items of data.items.
bool RanksItems(const ClusterConfig& config);

// Returns the result of an evaluation with this ranking, whose other metrics are unknown.
EvaluationResult ResultOf(const ClusterConfig& config, RankingResult ranking);

// Evaluates a training by rankings of all items, see RankingResult. Rank 0 computes, on the CPU;
// all ranks get its result.
//
// Threads: one owner.
class RankingEvaluation {
 public:
  // Wraps a reader for the network.
  using Wrap = std::function<std::unique_ptr<BatchReader>(std::unique_ptr<BatchReader> reader)>;

  // Lifetime: the configuration, with fitted statistics, outlives this object.
  RankingEvaluation(const ClusterConfig& config, Wrap wrap)
      : config_(config), wrap_(std::move(wrap)) {}

  // Reads the ids of the items, and the rows of the sets. Call on rank 0 before Evaluate().
  // Errors: those of ReadItemIds() and RankedUsers.
  Status Load();

  // See TrainerData::evaluate. Errors: of the port, the network and the collective; those of
  // RankItems().
  StatusOr<EvaluationResult> Evaluate(EmbeddingPort& port, DenseNetwork& network,
                                      Collective& collective, const StepId& step_id,
                                      EvaluationSet set, EvaluationOptions options,
                                      const std::stop_token& stop);

 private:
  struct Ranked {
    RankedUsers users;
    double popular_recall;  // See RankingResult.
  };

  StatusOr<RankingResult> Rank(EmbeddingPort& port, DenseNetwork& network, const StepId& step_id,
                               EvaluationSet set, const EvaluationOptions& options,
                               const std::stop_token& stop);
  const std::vector<std::string>& FilesOf(EvaluationSet set) const;

  const ClusterConfig& config_;
  const Wrap wrap_;
  std::optional<ItemIds> items_;
  std::optional<Ranked> validation_;
  std::optional<Ranked> test_;
};

}  // namespace simurgh
