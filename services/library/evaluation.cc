#include "services/library/evaluation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

#include "collective/collective.h"
#include "data/reading/arrow_source.h"
#include "services/library/table_reader.h"
#include "services/nn_worker/network_description.h"
#include "services/nn_worker/train_report.h"
#include "train/dense_weights.h"
#include "train/evaluator.h"

namespace simurgh {
StatusOr<TableEvaluation> EvaluateTable(const ModelVersion& version, Predictor& predictor,
                                        ArrowArrayStream* table,
                                        std::optional<std::span<const float>> outputs) {
  const ClusterConfig& config = version.config();
  SIMURGH_RETURN_IF_ERROR(CheckHasMetrics(config));
  const size_t labels = version.format().labels.size();
  DataConfig data = config.data;
  data.on_bad_row = DataConfig::OnBadRow::kSkip;
  data.max_bad_share = 1;
  std::vector<bool> is_good;
  const auto tables =
      NewArrowTableBatcher(data, config.features, kTableBatchRows,
                           {.on_result = [&](bool in_batch) { is_good.push_back(in_batch); }});
  SIMURGH_RETURN_IF_ERROR(tables->Add(table));
  tables->End();
  PredictionMetrics metrics(TasksOf(config.model), GroupFeature(config),
                            InputsOf(config).has_sample_weights);
  std::vector<float> predictions;
  size_t row = 0;  // The next row of the table.
  while (true) {
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, tables->Next());
    if (!batch) break;
    if (outputs) {
      predictions.clear();
      for (size_t sample = 0; sample < batch->size(); ++row) {
        if (row >= is_good.size() || (row + 1) * labels > outputs->size()) break;
        if (!is_good[row]) continue;
        const std::span<const float> own = outputs->subspan(row * labels, labels);
        if (!std::ranges::all_of(own, [](float one) { return std::isfinite(one); })) {
          return absl::InvalidArgumentError(
              absl::StrCat("outputs: row ", row, " has a number that is not finite"));
        }
        predictions.insert(predictions.end(), own.begin(), own.end());
        ++sample;
      }
      if (predictions.size() != batch->size() * labels) break;  // The size is compared below.
      predictor.MakePredictions(version, predictions);
    } else {
      SIMURGH_RETURN_IF_ERROR(predictor.Predict(version, *batch, predictions));
    }
    metrics.Add(*batch, predictions);
  }
  if (outputs && outputs->size() != is_good.size() * labels) {
    return absl::InvalidArgumentError(absl::StrCat("outputs: ", outputs->size(), " numbers for ",
                                                   is_good.size(), " rows with ", labels,
                                                   " labels; give one for each row and label"));
  }
  const auto bad = static_cast<uint64_t>(std::ranges::count(is_good, false));
  if (bad == is_good.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table: ", is_good.size(), " rows, and none can be compared; it needs labels"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const EvaluationResult result, metrics.Compute(*NewLocalCollective()));
  return TableEvaluation{
      .text = TestResult(result, version.format().labels), .rows = is_good.size(), .bad_rows = bad};
}

}  // namespace simurgh
