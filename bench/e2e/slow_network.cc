// A network with delay and limited bandwidth between network namespaces of this machine. See
// --help.

#include <chrono>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/prctl.h>

#include "bench/e2e/delay_line.h"
#include "bench/e2e/tunnel.h"
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>

#include "simurgh/base/version.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;
using Clock = std::chrono::steady_clock;

constexpr char kUsage[] =
    "slow_network: carries packets between network namespaces, late and at a limited rate\n\n"
    "Usage: slow_network [options] NAMESPACE...\n\n"
    "Gives each namespace (ip netns add NAMESPACE) a device slow0; the first has the address "
    "10.77.0.1,\n"
    "the next 10.77.0.2, and so on. Prints 'ready' once they are up, and runs until it is ended\n"
    "(SIGTERM). The devices go with it. Needs the rights of root.\n\n";

constexpr uint32_t kNetwork = 0x0A4D0000;  // 10.77.0.0
constexpr size_t kMostHosts = 250;
constexpr size_t kMostBytesUnderWay = size_t{1} << 28;
constexpr size_t kDestinationOffset = 16;  // In a header of IPv4.
constexpr size_t kHeaderBytes = 20;

volatile std::sig_atomic_t stopped = 0;

struct Options {
  double delay_ms = 1;
  double gbit_per_s = 10;
  std::vector<std::string> hosts;
};

using Packet = std::vector<std::byte>;

// Every host sends through a line of its own.
class Network {
 public:
  Network(std::vector<Tunnel> hosts, const Options& options) : hosts_(std::move(hosts)) {
    const auto delay = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::milli>(options.delay_ms));
    for (size_t i = 0; i < hosts_.size(); ++i) {
      lines_.emplace_back(delay, options.gbit_per_s * 1e9 / 8, kMostBytesUnderWay);
    }
  }

  void Run() {
    std::vector<pollfd> waits;
    for (const Tunnel& host : hosts_) waits.push_back({host.descriptor(), POLLIN, 0});
    while (stopped == 0) {
      const std::optional<timespec> patience = UntilNext(Clock::now());
      ::ppoll(waits.data(), waits.size(), patience ? &*patience : nullptr, nullptr);
      for (size_t i = 0; i < hosts_.size(); ++i) Collect(i);
      Deliver(Clock::now());
    }
  }

 private:
  // What the host has sent by now.
  void Collect(size_t host) {
    for (size_t got = hosts_[host].Read(buffer_); got > 0; got = hosts_[host].Read(buffer_)) {
      lines_[host].Push(Clock::now(), got, Packet(buffer_.begin(), buffer_.begin() + got));
    }
  }

  void Deliver(Clock::time_point now) {
    for (DelayLine<Packet>& line : lines_) {
      while (line.due() && *line.due() <= now) Route(line.Pop());
    }
  }

  void Route(const Packet& packet) {
    if (packet.size() < kHeaderBytes || std::to_integer<int>(packet[0]) >> 4 != 4) return;
    uint32_t destination = 0;
    for (size_t i = 0; i < 4; ++i) {
      destination = destination << 8 | std::to_integer<uint32_t>(packet[kDestinationOffset + i]);
    }
    const uint32_t host = destination - kNetwork - 1;
    if (host < hosts_.size()) hosts_[host].Write(packet);
  }

  // How long until something is due; nothing: as long as no packet comes.
  std::optional<timespec> UntilNext(Clock::time_point now) const {
    std::optional<Clock::time_point> first;
    for (const DelayLine<Packet>& line : lines_) {
      if (line.due() && (!first || *line.due() < *first)) first = line.due();
    }
    if (!first) return std::nullopt;
    const auto left = std::max<int64_t>(0, std::chrono::nanoseconds(*first - now).count());
    return timespec{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  }

  std::vector<Tunnel> hosts_;
  std::vector<DelayLine<Packet>> lines_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(Tunnel::kMaxPacketBytes);
};

Status Carry(const Options& options) {
  std::vector<Tunnel> hosts;
  for (const std::string& name : options.hosts) {
    const uint32_t address = kNetwork + static_cast<uint32_t>(hosts.size()) + 1;
    SIMURGH_ASSIGN_OR_RETURN(Tunnel host, Tunnel::Open(name, address));
    hosts.push_back(std::move(host));
  }
  std::cout << "ready" << std::endl;
  Network(std::move(hosts), options).Run();
  return absl::OkStatus();
}

// Nothing: all has been said.
StatusOr<std::optional<Options>> Parse(int argc, char** argv) {
  Options options;
  po::options_description named("Options");
  named.add_options()("delay-ms", po::value(&options.delay_ms)->value_name("X")->default_value(1),
                      "one way")("gbit",
                                 po::value(&options.gbit_per_s)->value_name("X")->default_value(10),
                                 "Gbit/s that each host may send")("help", "prints this and exits")(
      "version", "prints the version and exits");
  po::options_description all = named;
  all.add_options()("host", po::value(&options.hosts));
  po::positional_options_description positions;
  positions.add("host", -1);
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv).options(all).positional(positions).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (values.count("help") > 0) {
    std::cout << kUsage << named;
    return std::nullopt;
  }
  if (values.count("version") > 0) {
    std::cout << "slow_network " << Version() << "\n";
    return std::nullopt;
  }
  if (options.hosts.size() < 2 || options.hosts.size() > kMostHosts) {
    return absl::InvalidArgumentError("name 2 to 250 namespaces");
  }
  if (!(options.delay_ms >= 0 && options.delay_ms <= 10'000)) {
    return absl::InvalidArgumentError("--delay-ms takes 0 to 10000");
  }
  if (!(options.gbit_per_s > 0)) return absl::InvalidArgumentError("--gbit takes more than 0");
  return options;
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) {
  using namespace simurgh;
  const auto options = bench::Parse(argc, argv);
  if (!options.ok()) {
    std::cerr << "slow_network: " << options.status().message() << " (--help lists the options)\n";
    return 2;
  }
  if (!options->has_value()) return 0;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const int signal : {SIGTERM, SIGINT}) {
    std::signal(signal, [](int /*signal*/) { bench::stopped = 1; });
  }
  const Status status = bench::Carry(**options);
  if (status.ok()) return 0;
  std::cerr << "slow_network: " << status.message() << "\n";
  return 1;
}
