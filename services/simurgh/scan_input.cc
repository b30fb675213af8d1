#include "services/simurgh/scan_input.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "services/nn_worker/training_job.h"
#include "services/simurgh/file_prediction.h"
#include "services/simurgh/input_reports.h"

namespace simurgh {
namespace {

StatusOr<ScannedInput> Scan(const std::shared_ptr<const ModelVersion>& model,
                            const PredictInput& input, const ScanOptions& options,
                            bool has_labels) {
  const ClusterConfig& config = model->config();
  ScannedInput scanned{
      .input = std::make_unique<PredictInput>(input), .scan = {}, .report = {}, .ids = {}};
  std::vector<std::string> columns = options.scan.by;
  columns.insert(columns.end(), options.scan.others.begin(), options.scan.others.end());
  InputScan::Options scan_options = options.scan;
  scan_options.has_labels = has_labels;
  if (!has_labels) scan_options.importance_rows = 0;
  scanned.scan =
      std::make_unique<InputScan>(config, scanned.input->data, scan_options, GroupFeature(config));
  const bool keeps_lines = scan_options.importance_rows > 0;
  FilePredictionOptions reading{
      .reads_labels = has_labels, .columns = columns, .option = "--by", .keeps_lines = keeps_lines};
  reading.adds_columns = ColumnsOf(scanned.input->data).size() > ColumnsOf(config.data).size();
  reading.prepare = [&](PredictedRows& rows, RowText* text) {
    if (text == nullptr) return absl::OkStatus();
    rows.cells.resize(rows.batch.size() * columns.size());
    auto next = rows.cells.begin();
    for (size_t row = 0; row < rows.size(); ++row) {
      if (!rows.is_good[row]) continue;
      for (const std::string_view cell : text->Cells(rows.row(row))) (next++)->assign(cell);
    }
    return absl::OkStatus();
  };
  std::vector<std::string_view> lines;
  reading.sink = [&](PredictedRows& rows) {
    lines.clear();
    for (size_t row = 0; row < rows.size() && keeps_lines; ++row) {
      if (rows.is_good[row]) lines.push_back(rows.row(row));
    }
    scanned.scan->Add(rows.batch, rows.predictions, lines, rows.columns.get(), rows.cells);
    return absl::OkStatus();
  };
  FilePrediction prediction(model, *scanned.input, std::move(reading));
  SIMURGH_RETURN_IF_ERROR(prediction.Open());
  SIMURGH_RETURN_IF_ERROR(prediction.Run(options.threads));
  if (prediction.rows() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.name, ": there are no rows; name files with rows"));
  }
  SIMURGH_RETURN_IF_ERROR(prediction.CheckRows(options.name));
  scanned.report = {.name = options.name,
                    .rows = prediction.rows(),
                    .bad_rows = prediction.bad_rows(),
                    .sampled_rows = scanned.scan->sample().rows(),
                    .has_labels = has_labels,
                    .has_weights = HasSampleWeights(config.data) && has_labels,
                    .has_groups = scanned.scan->has_groups(),
                    .unseen_ids = UnseenShare(prediction.id_counts())};
  scanned.ids = DriftOf(prediction.id_counts(), config);
  return scanned;
}

}  // namespace

StatusOr<ScannedInput> ScanInput(const std::shared_ptr<const ModelVersion>& model,
                                 const PredictInput& input, const ScanOptions& options) {
  StatusOr<ScannedInput> scanned = Scan(model, input, options, /*has_labels=*/true);
  const bool is_read_once = std::ranges::any_of(input.files, IsStream);
  if (scanned.ok() || !options.may_lack_labels || is_read_once ||
      !absl::IsInvalidArgument(scanned.status())) {
    return scanned;
  }
  StatusOr<ScannedInput> unlabelled = Scan(model, input, options, /*has_labels=*/false);
  if (!unlabelled.ok()) return scanned;  // Its error names what is wrong with the labels, too.
  std::fprintf(stderr, "simurgh: the rows are predicted without labels: %s\n",
               std::string(scanned.status().message()).c_str());
  return unlabelled;
}

}  // namespace simurgh
