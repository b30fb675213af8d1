#include "data/guess/kept_rows.h"

#include <utility>

#include "base/hash.h"

namespace simurgh {

void KeptRows::Add(std::span<const std::string_view> cells) {
  // The number of a row alone decides, so that a pattern of the rows has no influence.
  const uint64_t hash = Mix64(++seen_);
  if (!IsKept(hash)) return;
  columns_ = cells.size();
  for (const std::string_view cell : cells) {
    text_.append(cell);
    ends_.push_back(text_.size());
  }
  hashes_.push_back(hash);
  constexpr size_t kFewest = 100;
  const auto is_full = [&] {
    if (hashes_.size() > kMaxRows) return true;
    return hashes_.size() > kFewest && (ends_.size() > kMaxCells || text_.size() > kMaxBytes);
  };
  while (is_full()) Halve();
}

std::string_view KeptRows::Cell(size_t row, size_t column) const {
  const size_t cell = row * columns_ + column;
  const size_t begin = cell == 0 ? 0 : ends_[cell - 1];
  return std::string_view(text_).substr(begin, ends_[cell] - begin);
}

void KeptRows::Halve() {
  mask_ = mask_ << 1 | 1;
  KeptRows kept;
  kept.mask_ = mask_;
  kept.seen_ = seen_;
  kept.columns_ = columns_;
  for (size_t row = 0; row < hashes_.size(); ++row) {
    if (!IsKept(hashes_[row])) continue;
    for (size_t column = 0; column < columns_; ++column) {
      kept.text_.append(Cell(row, column));
      kept.ends_.push_back(kept.text_.size());
    }
    kept.hashes_.push_back(hashes_[row]);
  }
  *this = std::move(kept);
}

}  // namespace simurgh
