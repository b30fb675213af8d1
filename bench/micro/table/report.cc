#include "bench/micro/table/report.h"

#include <cstdio>

namespace simurgh::bench {

void Report::Begin(const Subject& subject) {
  subject_ = subject;
  if (json_) return;
  std::printf("\ndim %u, %s, %s, %llu rows\n%-22s %-8s %8s %12s %12s %6s %9s\n", subject.dim,
              subject.precision.c_str(), subject.optimizer.c_str(),
              static_cast<unsigned long long>(subject.rows), "case", "ids", "threads", "rows/s",
              "limit", "ratio", "bytes/row");
}

void Report::Add(const std::vector<Measurement>& measurements, std::string_view distribution,
                 double bytes_per_row) {
  for (const Measurement& measurement : measurements) {
    const Measurement& limit =
        measurement.limit < 0 ? measurement : measurements[static_cast<size_t>(measurement.limit)];
    const double rate = Median(measurement.rates);
    const double limit_rate = Median(limit.rates);
    const double ratio = MedianRatio(measurement, limit);
    const std::string ids(distribution);
    if (json_) {
      std::printf(
          "{\"case\":\"%s\",\"dim\":%u,\"precision\":\"%s\",\"optimizer\":\"%s\","
          "\"distribution\":\"%s\",\"threads\":%zu,\"rows\":%llu,\"rows_per_s\":%.0f,"
          "\"limit_rows_per_s\":%.0f,\"ratio\":%.3f,\"bytes_per_row\":%.1f}\n",
          measurement.name.c_str(), subject_.dim, subject_.precision.c_str(),
          subject_.optimizer.c_str(), ids.c_str(), measurement.threads,
          static_cast<unsigned long long>(subject_.rows), rate, limit_rate, ratio, bytes_per_row);
    } else {
      std::printf("%-22s %-8s %8zu %12.0f %12.0f %6.3f %9.1f\n", measurement.name.c_str(),
                  ids.c_str(), measurement.threads, rate, limit_rate, ratio, bytes_per_row);
    }
  }
  std::fflush(stdout);
}

void Report::AddGrowth(const Growth& growth) {
  const auto print = [&](const char* format) {
    std::printf(format, growth.wall.median, growth.wall.p99, growth.wall.p999, growth.wall.most,
                growth.cpu.median, growth.cpu.p99, growth.cpu.p999, growth.cpu.most);
  };
  if (json_) {
    std::printf(
        "{\"case\":\"growth\",\"dim\":%u,\"precision\":\"%s\",\"optimizer\":\"%s\","
        "\"distribution\":\"new\",\"threads\":1,\"rows\":%llu,\"rows_per_s\":%.0f,",
        subject_.dim, subject_.precision.c_str(), subject_.optimizer.c_str(),
        static_cast<unsigned long long>(subject_.rows), growth.rows_per_s);
    print(
        "\"wall_p50_ms\":%.3f,\"wall_p99_ms\":%.3f,\"wall_p999_ms\":%.3f,\"wall_max_ms\":%.3f,"
        "\"cpu_p50_ms\":%.3f,\"cpu_p99_ms\":%.3f,\"cpu_p999_ms\":%.3f,\"cpu_max_ms\":%.3f}\n");
  } else {
    std::printf("%-22s %-8s %8d %12.0f\n", "growth", "new", 1, growth.rows_per_s);
    print(
        "a request's ms: wall p50 %.3f, p99 %.3f, p99.9 %.3f, max %.3f; "
        "cpu p50 %.3f, p99 %.3f, p99.9 %.3f, max %.3f\n");
  }
  std::fflush(stdout);
}

void Report::Note(const std::string& text) {
  if (!json_) std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

}  // namespace simurgh::bench
