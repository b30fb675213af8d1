#include "services/library/evaluation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "retrieval/item_vectors.h"
#include "retrieval/training_ranking.h"
#include "retrieval/version_ranking.h"

#include "collective/collective.h"
#include "data/reading/arrow_source.h"
#include "data/reading/batch_reader.h"
#include "services/library/table_reader.h"
#include "services/nn_worker/network_description.h"
#include "services/nn_worker/train_report.h"
#include "train/dense_weights.h"
#include "train/evaluator.h"

namespace simurgh {
namespace {

// Reads the batches of one table.
class TableBatches final : public BatchReader {
 public:
  explicit TableBatches(std::unique_ptr<ArrowTableBatcher> tables) : tables_(std::move(tables)) {}

  StatusOr<std::optional<Batch>> Next() override { return tables_->Next(); }
  uint64_t skipped_rows() const override { return tables_->skipped_rows(); }

 private:
  std::unique_ptr<ArrowTableBatcher> tables_;
};

// Evaluates a model of two towers.
StatusOr<TableEvaluation> RankTable(const ModelVersion& version, Predictor& predictor,
                                    ArrowArrayStream* table) {
  const ClusterConfig& config = version.config();
  DataConfig data = config.data;
  data.on_bad_row = DataConfig::OnBadRow::kSkip;
  data.max_bad_share = 1;
  TableEvaluation evaluation;
  const auto open = [&](const DataConfig& own,
                        const RowObserver& on_row) -> StatusOr<std::unique_ptr<BatchReader>> {
    const RowObserver counting = [&evaluation, on_row](std::string_view line, bool in_batch) {
      ++evaluation.rows;
      if (!in_batch) ++evaluation.bad_rows;
      on_row(line, in_batch);
    };
    auto tables = NewArrowTableBatcher(own, config.features, kTableBatchRows,
                                       {.on_row = counting, .copies_skipped = true});
    SIMURGH_RETURN_IF_ERROR(tables->Add(table));
    tables->End();
    return std::make_unique<TableBatches>(std::move(tables));
  };
  // Rows of tables have the texts of Arrow data.
  data.format = DataConfig::Format::kArrow;
  SIMURGH_ASSIGN_OR_RETURN(RankingResult ranking, RankVersion(version, predictor, data, open));
  evaluation.text = TestResult(ResultOf(config, std::move(ranking)), version.format().labels);
  return evaluation;
}

}  // namespace

StatusOr<TableEvaluation> EvaluateTable(const ModelVersion& version, Predictor& predictor,
                                        ArrowArrayStream* table,
                                        std::optional<std::span<const float>> outputs) {
  const ClusterConfig& config = version.config();
  if (RanksItems(config)) return RankTable(version, predictor, table);
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

StatusOr<TableVectors> VectorsOfTable(const ModelVersion& version, Predictor& predictor,
                                      ArrowArrayStream* table, TowerSide side) {
  const ClusterConfig& config = version.config();
  DataConfig data = config.data;
  data.format = DataConfig::Format::kArrow;
  SIMURGH_ASSIGN_OR_RETURN(data, DataOfTower(config, data, side, /*texts=*/{}, /*files=*/{}));
  data.on_bad_row = DataConfig::OnBadRow::kSkip;
  data.max_bad_share = 1;
  TableVectors result;
  SIMURGH_ASSIGN_OR_RETURN(result.width, VectorWidth(config));
  const auto tables = NewArrowTableBatcher(
      data, config.features, kTableBatchRows,
      {.on_result = [&result](bool in_batch) { result.is_good.push_back(in_batch); },
       .ignore_labels = true});
  SIMURGH_RETURN_IF_ERROR(tables->Add(table));
  tables->End();
  std::vector<float> memory;
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, tables->Next());
    if (!batch) return result;
    SIMURGH_ASSIGN_OR_RETURN(const MatrixView<const float> vectors,
                             VectorsOf(version, predictor, *batch, side, memory));
    const std::span<const float> numbers = vectors.flat();
    result.vectors.insert(result.vectors.end(), numbers.begin(), numbers.end());
  }
}

}  // namespace simurgh
