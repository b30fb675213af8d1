#include "data/row_parser.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace simurgh {

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
