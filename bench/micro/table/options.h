#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/micro/table/batches.h"
#include "simurgh/base/status.h"
#include "simurgh/config/table_config.h"

namespace simurgh::bench {

struct TableBenchOptions {
  std::vector<uint32_t> dims = {8, 16, 64, 128};
  uint64_t rows = 0;  // Of a partition; 0: by dim, see RowsFor().
  std::vector<Distribution> distributions = {Distribution::kUniform, Distribution::kZipf};
  std::vector<RowPrecision> precisions = {RowPrecision::kF32};
  std::vector<std::string> optimizers = {"adagrad"};
  size_t threads = 1;  // Partitions at once, beside one alone.
  size_t batch = 4096;
  size_t turns = 5;
  bool insert = true;
  bool rivals = true;
  bool json = false;
  uint64_t growth_rows = 0;      // 0: growth is not measured.
  bool bare_table = false;       // Whether a table that knows its rows is measured.
  bool id_spaces = false;        // Whether small ids are measured beside others.
  std::string shared_directory;  // Empty: no table in a file is measured.

  // 2.5 GB of weights, at most 20 million rows; a hundredth of that in a quick run.
  uint64_t RowsFor(uint32_t dim) const;
  bool quick = false;
};

std::string_view NameOf(RowPrecision precision);

// Of an optimizer by one of the names that the command line takes.
SparseOptimizerConfig OptimizerNamed(std::string_view name);

// Nothing after --help or --version, whose text goes to `out`.
//
// Errors: INVALID_ARGUMENT, one line.
StatusOr<std::optional<TableBenchOptions>> ParseTableBenchOptions(int argc, const char* const* argv,
                                                                  std::ostream& out);

}  // namespace simurgh::bench
