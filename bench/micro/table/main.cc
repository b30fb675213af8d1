// Rows per second of a table, of the machine's memory and of two other structures. See --help.

#include <string>

#include "absl/strings/str_cat.h"

#include "bench/micro/table/id_spaces.h"
#include "bench/micro/table/options.h"
#include "bench/micro/table/suite.h"

// Read by jemalloc, where it is linked: puts the rivals' nodes in huge pages.
extern "C" {
const char* malloc_conf = "thp:always";
}

int main(int argc, char** argv) {
  using namespace simurgh;
  const bench::TableBenchOptions options = bench::ParseTableBenchOptions(argc, argv);
  bench::Report report(options.json);
  for (const uint32_t dim : options.dims) {
    for (const std::string& optimizer : options.optimizers) {
      for (const RowPrecision precision : options.precisions) {
        TableConfig config;
        config.name = "bench";
        config.dim = dim;
        config.capacity_rows = options.RowsFor(dim);
        config.optimizer = bench::OptimizerNamed(optimizer);
        config.precision = precision;
        if (const uint64_t rows = options.growth_rows; rows > 0) {
          report.Begin({dim, std::string(bench::NameOf(precision)), optimizer, rows});
          report.AddGrowth(bench::MeasureGrowth(config, rows, options.batch));
        }
        report.Begin({dim, std::string(bench::NameOf(precision)), optimizer, config.capacity_rows});
        if (options.id_spaces) {
          const auto spaces = bench::MeasureIdSpaces(config, options.batch, options.turns);
          report.Add(spaces.measurements, "zipf", spaces.bytes_per_row);
          report.Note(absl::StrCat("spread ids evicted ", spaces.evicted, " rows of other ids"));
        }
        bench::Suite(options, config, report).Run();
      }
    }
  }
  return 0;
}
