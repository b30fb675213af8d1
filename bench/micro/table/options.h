#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/micro/table/batches.h"
#include "config/table_config.h"

namespace simurgh::bench {

struct TableBenchOptions {
  std::vector<uint32_t> dims;
  uint64_t rows = 0;  // Per partition; 0: by dim, see RowsFor().
  std::vector<Distribution> distributions;
  std::vector<RowPrecision> precisions;
  std::vector<std::string> optimizers;
  size_t threads = 0;  // Partitions to measure concurrently, besides one alone.
  size_t batch = 0;
  size_t turns = 0;
  bool insert = true;
  bool rivals = true;
  bool json = false;
  bool quick = false;
  uint64_t growth_rows = 0;      // 0: growth is not measured.
  bool bare_table = false;       // Whether loops with known row numbers are measured.
  bool id_spaces = false;        // Whether small ids are measured against spread ids.
  std::string shared_directory;  // Empty: no table in a file is measured.

  // 2.5 GB of weights, at most 20 million rows; a hundredth of that in a quick run.
  uint64_t RowsFor(uint32_t dim) const;
};

std::string_view NameOf(RowPrecision precision);

// Requires: a name that --optimizer accepts.
SparseOptimizerConfig OptimizerNamed(std::string_view name);

// Ends the process after --help, --version and errors.
TableBenchOptions ParseTableBenchOptions(int argc, const char* const* argv);

}  // namespace simurgh::bench
