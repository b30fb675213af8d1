#pragma once

#include <cstdint>

#include "base/status.h"
#include "config/data_config.h"
#include "data/reading/parsed_blocks.h"

namespace simurgh {

// Counts the rows that a reader has taken, and handles bad ones and warnings.
//
// Threads: one owner.
class RowNotes {
 public:
  RowNotes(const DataConfig& config, BadRowFile* bad_rows) : config_(config), bad_rows_(bad_rows) {}

  void CountRow() { ++rows_; }
  // Logs a warning, or counts a bad row. Returns its error if it ends the run.
  Status Take(const ParsedBlock::Note& note);
  uint64_t bad() const { return bad_; }

 private:
  Status Skip(const ParsedBlock::Note& note);

  const DataConfig config_;
  BadRowFile* const bad_rows_;  // May be null.
  uint64_t rows_ = 0;           // Includes bad ones.
  uint64_t bad_ = 0;
  uint64_t warnings_ = 0;
};

}  // namespace simurgh
