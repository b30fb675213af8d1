#include "services/serving/predict_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/nearest.h"

namespace simurgh {
namespace {}  // namespace

CellCollector::CellCollector(const RowFormat& format, const RequestLimits& limits,
                             std::shared_ptr<RequestMemory> memory)
    : format_(format), limits_(limits), memory_(std::move(memory)) {
  request_.columns.resize(format.columns.size());
  request_.memory = memory_;
}

std::optional<size_t> CellCollector::Find(std::string_view name, const char* place) {
  const size_t count = format_.columns.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t column = next_ + i < count ? next_ + i : next_ + i - count;
    if (format_.columns[column].name != name) continue;
    next_ = column + 1;
    has_column_ = true;
    return column;
  }
  const auto by_header = std::ranges::find(format_.columns, name, &RowFormat::Column::header_name);
  if (by_header != format_.columns.end() && !name.empty()) {
    has_column_ = true;
    return static_cast<size_t>(by_header - format_.columns.begin());
  }
  if (limits_.ignores_unknown) {
    if (!has_ignored_) first_ignored_ = name;
    has_ignored_ = true;
    return std::nullopt;
  }
  const bool is_label = std::ranges::find(format_.labels, name) != format_.labels.end();
  problems_.Add(absl::StrCat(
      place, " ", Shown(name),
      is_label ? ": is a label, which the model predicts; remove it"
               : absl::StrCat(": unknown column; ", NearestColumn(name), "; correct or remove it"),
      ", or set serving.unknown_columns: ignore"));
  return std::nullopt;
}

std::string CellCollector::NearestColumn(std::string_view name) const {
  std::vector<std::string> names;
  for (const RowFormat::Column& column : format_.columns) names.push_back(column.name);
  return NearestRemedy("column", std::string(name), names);
}

std::string CellCollector::Place(const char* place, size_t column, size_t row) const {
  return absl::StrCat(place, " ", Shown(format_.columns[column].name), ", row ", row);
}

void CellCollector::RefuseRows(size_t rows) {
  too_many_ = absl::OutOfRangeError(absl::StrCat("the request has ", rows,
                                                 " rows or more; send at "
                                                 "most ",
                                                 limits_.max_rows, ", see serving.max_rows"));
}

bool CellCollector::CountListId() {
  if (++list_ids_ <= limits_.max_list_ids) return true;
  too_many_ = absl::OutOfRangeError(
      absl::StrCat("the arrays of the request have more than ", limits_.max_list_ids,
                   " ids; send fewer rows, or raise serving.max_body_bytes"));
  return false;
}

StatusOr<PredictRequest> CellCollector::Finish(size_t rows) {
  SIMURGH_RETURN_IF_ERROR(too_many_);
  if (has_ignored_ && !has_column_) {
    return absl::InvalidArgumentError(absl::StrCat("no column is one of the model, such as ",
                                                   Shown(first_ignored_), "; ",
                                                   NearestColumn(first_ignored_)));
  }
  if (!problems_.empty()) return absl::InvalidArgumentError(problems_.Text());
  if (!limits_.allows_bad_rows && !bad_.problems.empty()) {
    return absl::InvalidArgumentError(bad_.problems.Text());
  }
  PredictRequest request;
  request.cell_bytes = memory_->copied_bytes();
  for (const std::vector<Cell>& column : request_.columns) {
    request.cell_bytes += column.size() * sizeof(Cell);
  }
  request.rows = std::move(request_);
  request.rows.rows = rows;
  request.bad = std::move(bad_);
  return request;
}

}  // namespace simurgh
