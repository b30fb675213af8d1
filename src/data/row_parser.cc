#include "data/row_parser.h"

#include <charconv>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

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

std::unique_ptr<RowParser> NewRowParser(const DataConfig& config, bool ignore_labels,
                                        std::unique_ptr<RowConsumer> consumer) {
  return config.format == DataConfig::Format::kCsv
             ? NewCsvParser(config, ignore_labels, std::move(consumer))
             : NewCriteoParser(config, ignore_labels, std::move(consumer));
}

std::string Quoted(std::string_view cell) {
  constexpr size_t kShownBytes = 64;
  const std::string_view shown = cell.substr(0, kShownBytes);
  return absl::StrCat("'", absl::CHexEscape(absl::string_view(shown.data(), shown.size())),
                      shown.size() < cell.size() ? "..." : "", "'");
}

std::string QuotedValues(const RowCells& cells, std::span<const size_t> columns) {
  constexpr size_t kShownValues = 8;
  std::string text;
  size_t count = 0;
  for (const size_t column : columns) {
    for (const Token& part : cells.cell(column)) {
      if (++count > kShownValues) return absl::StrCat(text, ", ...");
      absl::StrAppend(&text, count == 1 ? "" : ", ", Quoted(part.text));
    }
  }
  return count == 0 ? "missing cells" : text;
}

}  // namespace simurgh
