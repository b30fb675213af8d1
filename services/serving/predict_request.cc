#include "services/serving/predict_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "simurgh/base/text.h"

namespace simurgh {
namespace {

// "use one of a, b, c", or the first of many.
std::string Choices(const std::vector<RowFormat::Column>& columns) {
  constexpr size_t kShown = 8;
  const auto end = columns.begin() + static_cast<ptrdiff_t>(std::min(kShown, columns.size()));
  return absl::StrCat(
      "the model's columns are ",
      absl::StrJoin(columns.begin(), end, ", ",
                    [](std::string* out, const auto& one) { absl::StrAppend(out, one.name); }),
      columns.size() > kShown ? ", ..." : "");
}

}  // namespace

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
    return column;
  }
  const bool is_label = std::ranges::find(format_.labels, name) != format_.labels.end();
  problems_.Add(absl::StrCat(place, " ", Shown(name),
                             is_label ? ": is a label, which the model predicts; remove it"
                                      : ": unknown column; remove it, or correct its name: ",
                             is_label ? "" : Choices(format_.columns)));
  return std::nullopt;
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
