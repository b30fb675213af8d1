#include "services/nn_worker/id_overlap_report.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"

namespace simurgh {

IdOverlapReport::IdOverlapReport(MetricRegistry& registry,
                                 const std::vector<FeatureConfig>& features)
    : meter_(features.size()) {
  for (const FeatureConfig& feature : features) {
    names_.push_back(feature.name);
    gauges_.push_back(
        &registry.GetGauge("simurgh_nn_id_overlap_probability",
                           "Largest share of training samples that hold the same id of a feature.",
                           {{"feature", feature.name}}));
  }
}

void IdOverlapReport::Add(const CompactBatch& batch) {
  const MutexLock lock(mutex_);
  meter_.Add(batch);
  if (++batches_ % kBatchesBetween == 0) Publish();
}

std::vector<double> IdOverlapReport::Publish() {
  std::vector<double> probabilities = meter_.Probabilities();
  for (size_t f = 0; f < probabilities.size(); ++f) gauges_[f]->Set(probabilities[f]);
  return probabilities;
}

std::string IdOverlapReport::Describe() {
  const MutexLock lock(mutex_);
  if (batches_ == 0) return "";
  const std::vector<double> probabilities = Publish();
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t f) { return std::pair(-probabilities[f], f); });
  std::string text = "id overlap probability:";
  for (size_t i = 0; i < std::min(order.size(), kMaxNamed); ++i) {
    absl::StrAppendFormat(&text, " %s=%.4f", names_[order[i]], probabilities[order[i]]);
  }
  if (order.size() > kMaxNamed) {
    absl::StrAppendFormat(&text, " others=%d", order.size() - kMaxNamed);
  }
  return text;
}

}  // namespace simurgh
