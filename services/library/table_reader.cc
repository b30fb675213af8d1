#include "services/library/table_reader.h"

namespace simurgh {
TableReader::TableReader(const std::shared_ptr<const ModelVersion>& version) : version_(version) {
  DataConfig data = version->config().data;
  data.on_bad_row = DataConfig::OnBadRow::kSkip;
  data.max_bad_share = 1;
  tables_ =
      NewArrowTableBatcher(data, version->config().features, kTableBatchRows,
                           {.on_result = [this](bool in_batch) { is_good_.push_back(in_batch); },
                            .ignore_labels = true,
                            .short_batches = true});
}

Status TableReader::Begin(ArrowArrayStream* table) {
  is_good_.clear();
  bad_before_ = tables_->skipped_rows();
  return tables_->Add(table);
}

}  // namespace simurgh
