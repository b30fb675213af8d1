#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "report/interval.h"
#include "train/evaluator.h"

namespace simurgh {

// How well rankings of all items find those of the users.
struct RankingReport {
  struct Metric {
    std::string name;  // Such as recall@20; the last one is mrr.
    double value = 0;
    Interval interval;
  };

  // Requires the name of a metric.
  const Metric& metric(const std::string& name) const;

  uint64_t users = 0;
  uint64_t items = 0;
  uint64_t unknown_items = 0;
  double popular_recall = std::numeric_limits<double>::quiet_NaN();  // See RankingResult.
  std::vector<Metric> metrics;
};

// Collects the metrics of users for their means, and for intervals by the Poisson bootstrap over
// users; see Bootstrap.
//
// Cost: some 400 sums a user and metric. Memory: constant.
// Threads: one owner.
class RankingBootstrap {
 public:
  RankingBootstrap();

  // Adds the next user.
  void Add(const RankingResult& user);

  // Returns the report of all users. result: their means. Intervals are unknown for fewer users
  // than Bootstrap::kFewestUnits.
  RankingReport ReportOf(const RankingResult& result) const;

 private:
  std::vector<uint8_t> poisson_;
  uint64_t users_ = 0;
  std::vector<double> weights_;            // Indexed by replicate.
  std::vector<std::vector<double>> sums_;  // Indexed by replicate and metric.
};

}  // namespace simurgh
