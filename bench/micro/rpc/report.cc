#include "bench/micro/rpc/report.h"

#include <algorithm>
#include <ostream>
#include <string>

#include "absl/strings/str_format.h"

namespace simurgh::bench {
namespace {

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double MedianOfField(const Contestant& one, double Sample::* field) {
  std::vector<double> values;
  for (const Sample& sample : one.samples) values.push_back(sample.*field);
  return Median(std::move(values));
}

Sample MedianOf(const Contestant& one) {
  Sample median;
  for (double Sample::* const field :
       {&Sample::rps, &Sample::gbps, &Sample::p50_us, &Sample::p99_us, &Sample::p999_us,
        &Sample::cpu_s_per_gb, &Sample::peak_rss_mb, &Sample::extra_rss_mb, &Sample::other_cores}) {
    median.*field = MedianOfField(one, field);
  }
  return median;
}

// Half of the distance between the best and the worst, over the median.
double SpreadOfRps(const Contestant& one) {
  const auto [low, high] = std::ranges::minmax(one.samples, {}, &Sample::rps);
  return (high.rps - low.rps) / 2 / MedianOfField(one, &Sample::rps);
}

// The one with the most requests per second among these peers over a transport; null if there is
// none.
const Contestant* Best(const PointResult& result, const std::string& transport,
                       const std::vector<std::string>& peers) {
  const Contestant* best = nullptr;
  for (const Contestant& one : result.contestants) {
    if (one.transport != transport || std::ranges::count(peers, one.peer) == 0) continue;
    if (best == nullptr || MedianOfField(one, &Sample::rps) > MedianOfField(*best, &Sample::rps)) {
      best = &one;
    }
  }
  return best;
}

std::string RatioText(const Contestant& ours, const Contestant* theirs) {
  if (theirs == nullptr || theirs == &ours) return absl::StrFormat(" %8s %8s", "-", "-");
  const auto ratio = [&](double Sample::* field) {
    return MedianOfField(ours, field) / MedianOfField(*theirs, field);
  };
  return absl::StrFormat(" %8.2f %8.2f", ratio(&Sample::rps), ratio(&Sample::cpu_s_per_gb));
}

}  // namespace

void PrintJson(const PointResult& result, std::ostream& out) {
  for (const Contestant& one : result.contestants) {
    const Sample m = MedianOf(one);
    out << absl::StrFormat(
        R"({"bench":"rpc","peer":"%s","transport":"%s","work":"%s","bytes":%d,"in_flight":%d,)"
        R"("rps":%.1f,"gbps":%.6f,"p50_us":%.2f,"p99_us":%.2f,"p999_us":%.2f,"cpu_s_per_gb":%.4f,)"
        R"("peak_rss_mb":%.2f,"extra_rss_mb":%.2f,"other_cores":%.2f,"repeat":%d,)"
        R"("rps_spread":%.4f})"
        "\n",
        one.peer, one.transport, NameOf(result.work), result.bytes, result.in_flight, m.rps, m.gbps,
        m.p50_us, m.p99_us, m.p999_us, m.cpu_s_per_gb, m.peak_rss_mb, m.extra_rss_mb, m.other_cores,
        one.samples.size(), SpreadOfRps(one));
  }
  out.flush();
}

void PrintTableHead(std::ostream& out) {
  out << absl::StrFormat("%-7s %6s %4s %-5s %-15s %10s %5s %8s %10s %10s %10s %8s %8s %8s %5s\n",
                         "work", "bytes", "x", "over", "peer", "requests/s", "+-%", "GB/s",
                         "p50 us", "p99 us", "p99.9 us", "CPU s/GB", "peak MB", "extra MB",
                         "other");
}

void PrintTableRows(const PointResult& result, std::ostream& out) {
  for (const Contestant& one : result.contestants) {
    const Sample m = MedianOf(one);
    out << absl::StrFormat(
        "%-7s %6s %4d %-5s %-15s %10.0f %5.1f %8.3f %10.1f %10.1f %10.1f %8.3f %8.1f %8.1f %5.2f\n",
        NameOf(result.work), BytesText(result.bytes), result.in_flight, one.transport, one.peer,
        m.rps, 100 * SpreadOfRps(one), m.gbps, m.p50_us, m.p99_us, m.p999_us, m.cpu_s_per_gb,
        m.peak_rss_mb, m.extra_rss_mb, m.other_cores);
  }
  out.flush();
}

void PrintRatios(const std::vector<PointResult>& results, std::ostream& out) {
  out << "\nRatios of medians: ours over raw sockets, over the faster way to use gRPC, over ours "
         "on "
         "TCP\n";
  out << absl::StrFormat("%-7s %6s %4s %-5s %-12s %17s %17s %17s\n", "", "", "", "", "",
                         "raw sockets", "gRPC", "our TCP");
  out << absl::StrFormat("%-7s %6s %4s %-5s %-12s", "work", "bytes", "x", "over", "ours");
  for (int i = 0; i < 3; ++i) out << absl::StrFormat(" %8s %8s", "requests", "CPU/GB");
  out << "\n";
  for (const PointResult& result : results) {
    for (const Contestant& one : result.contestants) {
      if (!one.ours()) continue;
      out << absl::StrFormat("%-7s %6s %4d %-5s %-12s", NameOf(result.work),
                             BytesText(result.bytes), result.in_flight, one.transport, one.peer)
          << RatioText(one, Best(result, one.transport, {"raw"}))
          << RatioText(one, Best(result, one.transport, {"grpc", "grpc-bytebuffer"}))
          << RatioText(one, Best(result, "tcp", {one.peer})) << "\n";
    }
  }
}

}  // namespace simurgh::bench
