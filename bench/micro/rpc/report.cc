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

double MedianOfField(const std::vector<Sample>& samples, double Sample::* field) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.*field);
  return Median(std::move(values));
}

// Half of the distance between the best and the worst, over the median.
double SpreadOfRps(const std::vector<Sample>& samples) {
  const auto [low, high] = std::ranges::minmax(samples, {}, &Sample::rps);
  return (high.rps - low.rps) / 2 / MedianOfField(samples, &Sample::rps);
}

bool IsGrpc(const std::string& peer) { return peer.starts_with("grpc"); }

// Our median over a peer's.
double Ratio(const PointResult& result, const std::string& peer, double Sample::* field) {
  for (const PeerResult& one : result.peers) {
    if (one.peer == peer) {
      return MedianOfField(result.peers[0].samples, field) / MedianOfField(one.samples, field);
    }
  }
  return 0;
}

// The peer with the most requests per second among those that `counts` takes; empty if none.
template <typename Counts>
std::string Best(const PointResult& result, const Counts& counts) {
  std::string best;
  double most = 0;
  for (const PeerResult& one : result.peers) {
    const double rps = MedianOfField(one.samples, &Sample::rps);
    if (!counts(one.peer) || rps <= most) continue;
    most = rps;
    best = one.peer;
  }
  return best;
}

std::string RatioText(const PointResult& result, const std::string& peer) {
  if (peer.empty()) return absl::StrFormat("%8s %8s", "-", "-");
  return absl::StrFormat("%8.2f %8.2f", Ratio(result, peer, &Sample::rps),
                         Ratio(result, peer, &Sample::cpu_s_per_gb));
}

}  // namespace

Sample MedianOf(const std::vector<Sample>& samples) {
  Sample median;
  for (double Sample::* const field :
       {&Sample::rps, &Sample::gbps, &Sample::p50_us, &Sample::p99_us, &Sample::p999_us,
        &Sample::cpu_s_per_gb, &Sample::peak_rss_mb, &Sample::extra_rss_mb, &Sample::other_cores}) {
    median.*field = MedianOfField(samples, field);
  }
  return median;
}

void PrintJson(const PointResult& result, std::ostream& out) {
  for (const PeerResult& one : result.peers) {
    const Sample m = MedianOf(one.samples);
    out << absl::StrFormat(
        R"({"bench":"rpc","peer":"%s","transport":"%s","bytes":%d,"in_flight":%d,"rps":%.1f,)"
        R"("gbps":%.6f,"p50_us":%.2f,"p99_us":%.2f,"p999_us":%.2f,"cpu_s_per_gb":%.4f,)"
        R"("peak_rss_mb":%.2f,"extra_rss_mb":%.2f,"other_cores":%.2f,"repeat":%d,"rps_spread":%.4f})"
        "\n",
        one.peer, result.point.transport, result.point.bytes, result.point.in_flight, m.rps, m.gbps,
        m.p50_us, m.p99_us, m.p999_us, m.cpu_s_per_gb, m.peak_rss_mb, m.extra_rss_mb, m.other_cores,
        one.samples.size(), SpreadOfRps(one.samples));
  }
  out.flush();
}

void PrintTableHead(std::ostream& out) {
  out << absl::StrFormat("%-9s %6s %4s %-15s %10s %5s %8s %10s %10s %10s %8s %8s %8s %5s\n",
                         "transport", "bytes", "x", "peer", "requests/s", "+-%", "GB/s", "p50 us",
                         "p99 us", "p99.9 us", "CPU s/GB", "peak MB", "extra MB", "other");
}

void PrintTableRows(const PointResult& result, std::ostream& out) {
  for (const PeerResult& one : result.peers) {
    const Sample m = MedianOf(one.samples);
    out << absl::StrFormat(
        "%-9s %6s %4d %-15s %10.0f %5.1f %8.3f %10.1f %10.1f %10.1f %8.3f %8.1f %8.1f %5.2f\n",
        result.point.transport, BytesText(result.point.bytes), result.point.in_flight, one.peer,
        m.rps, 100 * SpreadOfRps(one.samples), m.gbps, m.p50_us, m.p99_us, m.p999_us,
        m.cpu_s_per_gb, m.peak_rss_mb, m.extra_rss_mb, m.other_cores);
  }
  out.flush();
}

void PrintRatios(const std::vector<PointResult>& results, std::ostream& out) {
  out << "\nRatios of medians, ours over the peer's (gRPC: over the faster of its variants)\n";
  out << absl::StrFormat("%-9s %6s %4s %17s %17s\n", "", "", "", "raw sockets", "gRPC");
  out << absl::StrFormat("%-9s %6s %4s %8s %8s %8s %8s\n", "transport", "bytes", "x", "requests",
                         "CPU/GB", "requests", "CPU/GB");
  for (const PointResult& result : results) {
    const std::string raw = Best(result, [](const std::string& peer) { return peer == "raw"; });
    out << absl::StrFormat("%-9s %6s %4d %s %s\n", result.point.transport,
                           BytesText(result.point.bytes), result.point.in_flight,
                           RatioText(result, raw), RatioText(result, Best(result, IsGrpc)));
  }
}

}  // namespace simurgh::bench
