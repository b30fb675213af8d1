#include "bench/micro/rpc/sweep.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "bench/micro/rpc/peer.h"
#include "bench/support/process.h"

namespace simurgh::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kMaxBytesInFlight = uint64_t{512} << 20;
constexpr auto kPatience = std::chrono::seconds(60);

class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "bench-rpc-XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

StatusOr<Sample> Measure(const Contestant& player, const Point& point) {
  const Scratch scratch;
  if (scratch.path().empty()) return absl::UnavailableError("no temporary directory can be made");
  const std::string address =
      point.transport == "tcp" ? "127.0.0.1:0" : absl::StrCat(scratch.path(), "/socket");
  const Clock::time_point deadline =
      Clock::now() + kPatience +
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(point.seconds));

  SIMURGH_ASSIGN_OR_RETURN(
      Process server,
      Process::Start(player.program,
                     ChildArguments({.peer = player.peer, .point = point, .address = address})));
  SIMURGH_ASSIGN_OR_RETURN(const std::string listening, server.ReadLine(deadline));
  SIMURGH_ASSIGN_OR_RETURN(
      Process client,
      Process::Start(player.program, ChildArguments({.peer = player.peer,
                                                     .point = point,
                                                     .address = listening,
                                                     .server = static_cast<int>(server.id())})));
  Sample sample;
  SIMURGH_RETURN_IF_ERROR(client.Read(std::as_writable_bytes(std::span(&sample, 1)), deadline));
  SIMURGH_RETURN_IF_ERROR(client.Stop());
  SIMURGH_RETURN_IF_ERROR(server.Stop());
  return sample;
}

// Whether others took cores that the two processes could have used.
bool IsDisturbed(const Sample& sample) {
  constexpr double kNegligible = 0.2;
  constexpr double kCoresForUs =
      4;  // Two processes, some of whose peers have a thread or two more.
  const double left = std::thread::hardware_concurrency() - sample.other_cores;
  return sample.other_cores > kNegligible && left < kCoresForUs;
}

// Repeats a disturbed measurement up to kTries times. Returns the least disturbed one.
StatusOr<Sample> MeasureInPeace(const Contestant& player, const Point& point) {
  constexpr int kTries = 3;
  SIMURGH_ASSIGN_OR_RETURN(Sample best, Measure(player, point));
  for (int i = 1; i < kTries && IsDisturbed(best); ++i) {
    SIMURGH_ASSIGN_OR_RETURN(const Sample again, Measure(player, point));
    if (again.other_cores < best.other_cores) best = again;
  }
  return best;
}

// The peers that there are, with the program that plays them; our own library first.
StatusOr<std::vector<Contestant>> FindPeers(const Options& options) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return absl::UnavailableError("/proc/self/exe cannot be read");
  const fs::path grpc = self.parent_path() / "bench_rpc_grpc";
  std::vector<Contestant> peers = {{.peer = kOurs, .program = self.string()}};
  if (options.spin_us > 0) peers.push_back({.peer = kOursSpinning, .program = self.string()});
  bool told = false;
  for (const std::string& peer : options.peers) {
    if (!peer.starts_with("grpc")) {
      peers.push_back({.peer = peer, .program = self.string()});
    } else if (fs::exists(grpc, error)) {
      peers.push_back({.peer = peer, .program = grpc.string()});
    } else if (!std::exchange(told, true)) {
      std::cerr << "gRPC: not built (scripts/bootstrap.sh --bench installs it; then build again)\n";
    }
  }
  return peers;
}

// Others echo, over sockets.
bool CanDo(const Contestant& one, Work work) {
  return one.ours() || (work == Work::kEcho && one.transport != "shm");
}

std::vector<PointResult> Points(const Options& options, const std::vector<Contestant>& peers) {
  std::vector<PointResult> points;
  for (const Work work : options.works) {
    for (const uint64_t bytes : options.bytes) {
      for (const uint32_t in_flight : options.in_flight) {
        if (bytes * in_flight > kMaxBytesInFlight) continue;
        PointResult point{.work = work, .bytes = bytes, .in_flight = in_flight};
        for (const std::string& transport : options.transports) {
          for (Contestant peer : peers) {
            peer.transport = transport;
            if (CanDo(peer, work)) point.contestants.push_back(std::move(peer));
          }
        }
        points.push_back(std::move(point));
      }
    }
  }
  return points;
}

Status RunPoint(const Options& options, PointResult& point) {
  const std::string what =
      absl::StrCat(NameOf(point.work), " ", BytesText(point.bytes), " x ", point.in_flight);
  for (uint32_t repeat = 0; repeat < options.repeat; ++repeat) {
    for (Contestant& one : point.contestants) {
      const StatusOr<Sample> sample =
          MeasureInPeace(one, {.work = point.work,
                               .transport = one.transport,
                               .bytes = point.bytes,
                               .in_flight = point.in_flight,
                               .seconds = options.seconds,
                               .spin_us = one.peer == kOursSpinning ? options.spin_us : 0});
      if (!sample.ok()) {
        return Annotate(sample.status(),
                        absl::StrCat(what, ", ", one.peer, " over ", one.transport));
      }
      one.samples.push_back(*sample);
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status RunSweep(const Options& options, const std::function<void(const PointResult&)>& done) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<Contestant> peers, FindPeers(options));
  std::vector<PointResult> points = Points(options, peers);
  for (size_t i = 0; i < points.size(); ++i) {
    std::cerr << absl::StrCat("[", i + 1, "/", points.size(), "] ", NameOf(points[i].work), " ",
                              BytesText(points[i].bytes), " x ", points[i].in_flight, "\n");
    SIMURGH_RETURN_IF_ERROR(RunPoint(options, points[i]));
    done(points[i]);
  }
  return absl::OkStatus();
}

}  // namespace simurgh::bench
