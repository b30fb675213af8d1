#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simurgh {

// The cells of a bounded number of rows, chosen at random over all rows, the same in each run.
class KeptRows {
 public:
  static constexpr size_t kMaxRows = 60'000;
  static constexpr size_t kMaxCells = 3'000'000;
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  // Requires the same number of cells in each call.
  void Add(std::span<const std::string_view> cells);

  size_t size() const { return hashes_.size(); }
  std::string_view Cell(size_t row, size_t column) const;

 private:
  // Keeps half of the rows, and of those that follow.
  void Halve();
  bool IsKept(uint64_t hash) const { return (hash & mask_) == 0; }

  uint64_t seen_ = 0;
  uint64_t mask_ = 0;  // Bits of a kept row's hash that are 0.
  size_t columns_ = 0;
  std::string text_;              // All cells.
  std::vector<size_t> ends_;      // End of each cell in `text_`.
  std::vector<uint64_t> hashes_;  // Hash of each row's number.
};

}  // namespace simurgh
