#include "report/cell_table.h"

#include <algorithm>

namespace simurgh {

void CellTable::AddRow(std::span<const Cell> cells) {
  size_t bytes = 0;
  size_t listed = 0;
  for (const Cell& cell : cells) {
    if (cell.kind == Cell::Kind::kText) bytes += cell.text.size();
    if (cell.kind != Cell::Kind::kList) continue;
    listed += cell.list.size();
    for (const std::string_view text : cell.list) bytes += text.size();
  }
  Row& row = rows_.emplace_back();
  row.cells.assign(cells.begin(), cells.end());
  row.text = std::make_unique<char[]>(bytes);
  row.lists.reserve(listed);  // Growth would move the lists.
  char* next = row.text.get();
  const auto copied = [&](std::string_view text) {
    const std::string_view copy(next, text.size());
    next = std::ranges::copy(text, next).out;
    return copy;
  };
  for (Cell& cell : row.cells) {
    if (cell.kind == Cell::Kind::kText) cell.text = copied(cell.text);
    if (cell.kind != Cell::Kind::kList) continue;
    const size_t first = row.lists.size();
    for (const std::string_view text : cell.list) row.lists.push_back(copied(text));
    cell.list = std::span(row.lists).subspan(first);
  }
}

bool AreEqual(const Cell& a, const Cell& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Cell::Kind::kMissing:
      return true;
    case Cell::Kind::kText:
      return a.text == b.text;
    case Cell::Kind::kNumber:
      return a.number == b.number;
    case Cell::Kind::kList:
      return std::ranges::equal(a.list, b.list);
  }
  return false;
}

}  // namespace simurgh
