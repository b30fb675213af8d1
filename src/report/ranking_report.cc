#include "report/ranking_report.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "report/bootstrap.h"
#include "report/poisson_table.h"

namespace simurgh {
namespace {

constexpr size_t kDrawsOfHash = 4;

// Returns the metrics by name, in the order of a report.
std::vector<std::pair<std::string, double>> MetricsOf(const RankingResult& result) {
  std::vector<std::pair<std::string, double>> metrics;
  for (const RankingResult::AtK& at : result.at) {
    metrics.emplace_back(absl::StrCat("recall@", at.k), at.recall);
    metrics.emplace_back(absl::StrCat("hit_rate@", at.k), at.hit_rate);
    metrics.emplace_back(absl::StrCat("ndcg@", at.k), at.ndcg);
  }
  metrics.emplace_back("mrr", result.mrr);
  return metrics;
}

}  // namespace

const RankingReport::Metric& RankingReport::metric(const std::string& name) const {
  const auto found = std::ranges::find(metrics, name, &Metric::name);
  SIMURGH_CHECK(found != metrics.end()) << name;
  return *found;
}

RankingBootstrap::RankingBootstrap()
    : poisson_(PoissonTable()), weights_(Bootstrap::kReplicates), sums_(Bootstrap::kReplicates) {}

void RankingBootstrap::Add(const RankingResult& user) {
  const auto metrics = MetricsOf(user);
  const uint64_t unit = Mix64(users_++);
  uint64_t draws = 0;
  for (size_t r = 0; r < sums_.size(); ++r, draws >>= 16) {
    if (r % kDrawsOfHash == 0) draws = Mix64(unit + (r / kDrawsOfHash + 1) * Random::kIncrement);
    const double weight = poisson_[draws & 0xffff];
    weights_[r] += weight;
    sums_[r].resize(metrics.size());
    for (size_t i = 0; i < metrics.size(); ++i) sums_[r][i] += weight * metrics[i].second;
  }
}

RankingReport RankingBootstrap::ReportOf(const RankingResult& result) const {
  RankingReport report{.users = result.users,
                       .items = result.items,
                       .unknown_items = result.unknown_items,
                       .popular_recall = result.popular_recall,
                       .metrics = {}};
  for (const auto& [name, value] : MetricsOf(result)) {
    RankingReport::Metric& metric = report.metrics.emplace_back(name, value);
    if (users_ < Bootstrap::kFewestUnits) continue;
    std::vector<double> replicates;
    for (size_t r = 0; r < sums_.size(); ++r) {
      replicates.push_back(sums_[r][report.metrics.size() - 1] / weights_[r]);
    }
    metric.interval = PercentileInterval(std::move(replicates));
  }
  return report;
}

}  // namespace simurgh
