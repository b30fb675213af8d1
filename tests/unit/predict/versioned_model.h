#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "config/cluster_config.h"
#include "model/model_directory.h"
#include "predict/predictor.h"

namespace simurgh::testing {

// Writes checkpoints whose every row and dense weight tells their version, without a training.
//
// The model has two id columns, `a` and `b`, with a table each, and two labels. In version v all
// weights of rows are v, and p of label `torn` is sigmoid(a + b - 2 v): 0.5 if rows and dense
// weights are of one version. p of label `version` is sigmoid(v / 1000), from the rows of `a`.
class VersionedModel {
 public:
  static constexpr uint64_t kIds = 50;

  // run: of the training.
  explicit VersionedModel(const std::string& folder, uint64_t run = 1);

  // A full checkpoint. missing: ids of `b` without a row. probe: probabilities of its one row, or
  // those that are right.
  Checkpoint WriteFull(uint64_t version, const std::set<uint64_t>& missing = {},
                       const std::string& probe = "");
  // A delta that has all rows, and removes some of `b`. whole: a table whose file has all rows
  // instead of the changes.
  Checkpoint WriteDelta(uint64_t version, const Checkpoint& parent,
                        const std::set<uint64_t>& removed = {}, const std::string& whole = "");

  ModelDirectory& directory() { return directory_; }
  const ClusterConfig& config() const { return config_; }

  // Requests of one row each, with ids a and b. Lifetime: the returned object's.
  static ScoreRequest Request(uint64_t a, uint64_t b);
  // The version that an answer is of; 0 for an answer of several.
  static uint64_t VersionOf(const ScoredRows& scored);

 private:
  Checkpoint Write(uint64_t version, const std::set<uint64_t>& missing, const Checkpoint* parent,
                   const std::string& probe, const std::string& whole);

  ModelDirectory directory_;
  ClusterConfig config_;
  uint64_t generation_;
  uint64_t run_;
};

}  // namespace simurgh::testing
