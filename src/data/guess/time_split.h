#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/guess/data_guess.h"

namespace simurgh {

// The parts of a file's rows by their times: the oldest rows are for training, the newest for test,
// and those between for validation. Rows of the same time are in one part. Memory: 8 bytes a row.
class TimeSplit {
 public:
  enum class Part { kTrain, kValidation, kTest };

  // Reads the times. About one of `every` rows is in each part but kTrain.
  // Requires guess.time_column.
  // Errors: those of ReadGuessed; INVALID_ARGUMENT for too few different times.
  static StatusOr<TimeSplit> Read(const DataGuess& guess, const std::string& path, uint64_t every,
                                  bool has_validation, bool has_test);

  // Returns the part of a row. row: its number among those that ReadGuessed gives.
  Part PartOf(size_t row) const {
    if (times_[row] >= test_) return Part::kTest;
    return times_[row] >= validation_ ? Part::kValidation : Part::kTrain;
  }

 private:
  std::vector<double> times_;
  double validation_;  // First time of the part for validation.
  double test_;        // First time of the part for test.
};

}  // namespace simurgh
