#include "data/reading/row_parser.h"

#include <charconv>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "base/text.h"

namespace simurgh {

NumberText::NumberText(double number)
    : length_(std::to_chars(digits_.data(), digits_.data() + digits_.size(), number).ptr -
              digits_.data()) {}

FileColumns ColumnsInOrder(std::span<const ColumnConfig> columns, bool with_labels) {
  FileColumns result;
  for (const ColumnConfig& column : columns) {
    const bool has = with_labels || !IsTarget(column.kind);
    result.cells.push_back(has ? result.width++ : FileColumns::kAbsent);
  }
  return result;
}

namespace {

// Parses the cells of rows of text that are not CSV.
class CellsParser final : public RowParser {
 public:
  CellsParser(const DataConfig& config, bool ignore_labels, std::unique_ptr<CellSplitter> splitter,
              std::unique_ptr<RowConsumer> consumer)
      : splitter_(std::move(splitter)),
        cells_parser_(NewCsvParser(config, ignore_labels, std::move(consumer))) {
    const std::vector<ColumnConfig> columns = ColumnsOf(config);
    for (size_t c = 0; c < columns.size(); ++c) {
      if (ignore_labels && IsTarget(columns[c].kind)) continue;
      cells_.push_back(&splitter_->cells()[c]);
    }
  }

  Status Parse(std::string_view line, const FileColumns* /*columns*/,
               BatchBuilder& builder) override {
    SIMURGH_RETURN_IF_ERROR(splitter_->Split(line));
    return ParseCells(cells_, {}, builder);
  }
  Status ParseCells(std::span<const Cell* const> cells, std::span<const bool> repeated,
                    BatchBuilder& builder) override {
    const Status parsed = cells_parser_->ParseCells(cells, repeated, builder);
    warning_ = cells_parser_->TakeWarning();
    return parsed;
  }

 private:
  const std::unique_ptr<CellSplitter> splitter_;
  const std::unique_ptr<RowParser> cells_parser_;
  std::vector<const Cell*> cells_;  // Cells of the splitter.
};

}  // namespace

std::unique_ptr<RowParser> NewRowParser(const DataConfig& config, bool ignore_labels,
                                        std::unique_ptr<RowConsumer> consumer) {
  if (auto splitter = NewCellSplitter(config); splitter != nullptr) {
    return std::make_unique<CellsParser>(config, ignore_labels, std::move(splitter),
                                         std::move(consumer));
  }
  return config.format == DataConfig::Format::kCriteo
             ? NewCriteoParser(config, ignore_labels, std::move(consumer))
             : NewCsvParser(config, ignore_labels, std::move(consumer));
}

}  // namespace simurgh
