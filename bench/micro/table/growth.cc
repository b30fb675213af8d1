#include "bench/micro/table/growth.h"

#include <algorithm>
#include <ctime>
#include <numeric>
#include <vector>

#include "bench/micro/table/batches.h"
#include "table/arena.h"
#include "table/table.h"

namespace simurgh::bench {
namespace {

double Milliseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

RequestTimes Summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](size_t thousandths) { return times[times.size() * thousandths / 1000]; };
  return {.median = at(500), .p99 = at(990), .p999 = at(999), .most = times.back()};
}

}  // namespace

Growth MeasureGrowth(const TableConfig& config, uint64_t rows, size_t batch) {
  TableConfig growing = config;
  growing.capacity_rows = rows;
  Arena arena = Arena::Create(Table::ReservationFor(growing)).value();
  Table table(growing, 1, arena);
  std::vector<uint64_t> ids(batch);
  std::vector<float> out(batch * config.dim);
  std::vector<double> wall;
  std::vector<double> cpu;
  for (uint64_t first = 0; first + batch <= rows; first += batch) {
    for (size_t i = 0; i < batch; ++i) ids[i] = IdOf(first + i);
    const double wall_begin = Milliseconds(CLOCK_MONOTONIC);
    const double cpu_begin = Milliseconds(CLOCK_THREAD_CPUTIME_ID);
    table.Pull(ids, {out.data(), batch, config.dim}, first);
    cpu.push_back(Milliseconds(CLOCK_THREAD_CPUTIME_ID) - cpu_begin);
    wall.push_back(Milliseconds(CLOCK_MONOTONIC) - wall_begin);
  }
  const double total = std::accumulate(wall.begin(), wall.end(), 0.0);
  return {.rows_per_s = static_cast<double>(wall.size() * batch) / total * 1e3,
          .wall = Summary(wall),
          .cpu = Summary(cpu)};
}

}  // namespace simurgh::bench
