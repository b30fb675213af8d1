// How many rows a second a table pulls, pushes and makes, beside what the machine can do at all and
// beside two other structures. See --help.

#include <iostream>

#include "bench/micro/table/options.h"
#include "bench/micro/table/suite.h"

int main(int argc, char** argv) {
  using namespace simurgh;
  const auto options = bench::ParseTableBenchOptions(argc, argv, std::cout);
  if (!options.ok()) {
    std::cerr << "bench_table: " << options.status().message() << "\n";
    return 2;
  }
  if (!options->has_value()) return 0;
  bench::Report report((*options)->json);
  for (const uint32_t dim : (*options)->dims) {
    TableConfig config;
    config.name = "bench";
    config.dim = dim;
    config.capacity_rows = (*options)->RowsFor(dim);
    bench::Suite(**options, config, report).Run();
  }
  return 0;
}
