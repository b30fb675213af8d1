#include "data/reading/row_notes.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"

#include "base/log.h"
#include "data/reading/bad_row_file.h"

namespace simurgh {

constexpr uint64_t kMinRows = 1'000;  // Fewer rows count as these in the share of bad rows.

Status RowNotes::Take(const ParsedBlock::Note& note) {
  if (!note.problem.ok()) return Skip(note);
  if (++warnings_ > kLoggedRows) return absl::OkStatus();
  spdlog::warn("{}: {}", note.place, note.warning);
  if (warnings_ == kLoggedRows) spdlog::warn("further outliers are not logged");
  return absl::OkStatus();
}

Status RowNotes::Skip(const ParsedBlock::Note& note) {
  const Status where = Annotate(note.problem, note.place);
  const bool skips = config_.on_bad_row == DataConfig::OnBadRow::kSkip;
  if (!skips || !absl::IsInvalidArgument(note.problem)) return where;
  ++bad_;
  if (bad_rows_ != nullptr) {
    bad_rows_->Add(note.place, std::string(note.problem.message()), note.text);
  }
  const auto rows = static_cast<double>(std::max(rows_, kMinRows));
  if (static_cast<double>(bad_) > config_.max_bad_share * rows) {
    return Annotate(
        where, absl::StrFormat("%d of %d rows are bad, more than data.max_bad_share, %g%s", bad_,
                               rows_, config_.max_bad_share, rows_ < kMinRows ? ", of 1000" : ""));
  }
  if (bad_ <= kLoggedRows) spdlog::warn("row skipped: {}", std::string(where.message()));
  if (bad_ == kLoggedRows) spdlog::warn("further bad rows are counted, not logged");
  return absl::OkStatus();
}

}  // namespace simurgh
