#pragma once

#include "predict/model_version.h"

namespace simurgh {

// Two dense columns, one with ids, one with lists, and one that the model ignores.
inline RowFormat SampleFormat(std::vector<std::string> labels = {"sold"}) {
  return {.columns = {{.name = "age", .is_dense = true, .is_read = true},
                      {.name = "price", .is_dense = true, .is_read = true},
                      {.name = "city", .is_read = true},
                      {.name = "seen", .is_list = true, .is_read = true},
                      {.name = "note"}},
          .labels = std::move(labels)};
}

// A cell for comparisons: "text", #1.5, [a,b] or -.
inline std::string CellText(const Cell& cell) {
  switch (cell.kind) {
    case Cell::Kind::kMissing:
      return "-";
    case Cell::Kind::kText:
      return "\"" + std::string(cell.text) + "\"";
    case Cell::Kind::kNumber: {
      std::string text = std::to_string(cell.number);
      text.erase(text.find_last_not_of('0') + 1);
      return "#" + text;
    }
    case Cell::Kind::kList:
      break;
  }
  std::string text = "[";
  for (const std::string_view one : cell.list) text += std::string(one) + ",";
  text.back() = ']';
  return text;
}

// "age: a b; city: c": the columns that are given.
inline std::string RequestText(const ScoreRequest& request, const RowFormat& format) {
  std::string text = std::to_string(request.rows) + " rows";
  for (size_t i = 0; i < request.columns.size(); ++i) {
    if (request.columns[i].empty()) continue;
    text += "; " + format.columns[i].name + ":";
    for (const Cell& cell : request.columns[i]) text += " " + CellText(cell);
  }
  return text;
}

}  // namespace simurgh
