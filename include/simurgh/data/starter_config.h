#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "simurgh/data/csv_guess.h"

namespace simurgh {

struct StarterOptions {
  std::string cluster;     // Name of the cluster.
  std::string source;      // The file that was looked at, for a comment.
  std::string train;       // Paths as the configuration has them.
  std::string validation;  // Empty: none; training then has a fixed number of epochs.
  std::string test;
  std::string model;  // The folder of checkpoints.
  uint64_t train_rows = 0;
  bool has_bad_rows = false;           // In the files of train and test.
  std::array<uint16_t, 6> ports = {};  // On the loopback interface.
};

// A complete YAML configuration with comments that trains on the columns of a guess.
std::string StarterConfig(const CsvGuess& guess, const StarterOptions& options);

}  // namespace simurgh
