// A network with delay and limited bandwidth within this machine. See --help.

#include <chrono>
#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <sys/prctl.h>

#include "absl/strings/str_cat.h"
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>

#include "bench/e2e/packet_network.h"
#include "bench/e2e/proxy_network.h"
#include "simurgh/base/version.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "slow_network: carries traffic of daemons on this machine with a delay and a limited rate\n\n"
    "Usage: slow_network [options] NAMESPACE...\n"
    "       slow_network [options] --proxies ADDRESS=SERVER...\n\n"
    "Without --proxies, carries all packets between network namespaces (ip netns add NAMESPACE).\n"
    "Each namespace gets a device slow0, with the addresses 10.77.0.1, 10.77.0.2, and so on.\n"
    "The devices exist while slow_network runs. Requires root.\n\n"
    "With --proxies, carries connections to each ADDRESS (tcp://127.0.0.1:1234) to its SERVER.\n\n"
    "Prints 'ready' when it is up and runs until SIGTERM or SIGINT.\n\n";

struct Options {
  double delay_ms = 1;
  double gbit_per_s = 10;
  bool proxies = false;
  std::vector<std::string> places;
};

Status Carry(const Options& options) {
  const auto delay = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double, std::milli>(options.delay_ms));
  const double bytes_per_second = options.gbit_per_s * 1e9 / 8;
  if (!options.proxies) return CarryPackets(options.places, delay, bytes_per_second);
  std::vector<ProxiedAddress> addresses;
  for (const std::string& place : options.places) {
    const size_t sign = place.find('=');
    if (sign == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", place, "' is invalid; use ADDRESS=SERVER"));
    }
    addresses.push_back({.from = place.substr(0, sign), .to = place.substr(sign + 1)});
  }
  return CarryConnections(addresses, delay, bytes_per_second);
}

Status Check(const Options& options) {
  if (options.proxies && options.places.empty()) {
    return absl::InvalidArgumentError("--proxies: no address; use ADDRESS=SERVER");
  }
  if (!options.proxies && (options.places.size() < 2 || options.places.size() > kMaxHosts)) {
    return absl::InvalidArgumentError(absl::StrCat(options.places.size(),
                                                   " namespaces are given; use 2 to ", kMaxHosts,
                                                   ", or --proxies (--help explains both)"));
  }
  if (!(options.delay_ms >= 0 && options.delay_ms <= 10'000)) {
    return absl::InvalidArgumentError("--delay-ms is out of range; use 0 to 10000");
  }
  if (!(options.gbit_per_s > 0))
    return absl::InvalidArgumentError("--gbit is out of range; use more than 0");
  return absl::OkStatus();
}

// Returns nothing after --help and --version.
StatusOr<std::optional<Options>> Parse(int argc, char** argv) {
  Options options;
  const auto number = [](double& value) {
    return po::value(&value)->value_name("X")->default_value(value);
  };
  po::options_description named("Options");
  named.add_options()("delay-ms", number(options.delay_ms), "one-way delay in ms");
  named.add_options()("gbit", number(options.gbit_per_s),
                      "Gbit/s limit of each namespace, or of each direction of a connection");
  named.add_options()("proxies", po::bool_switch(&options.proxies), "carry connections of proxies");
  named.add_options()("help", "print this text");
  named.add_options()("version", "print the version");
  po::options_description all = named;
  all.add_options()("place", po::value(&options.places));
  po::positional_options_description positions;
  positions.add("place", -1);
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
  SIMURGH_RETURN_IF_ERROR(Check(options));
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
  const Status status = bench::Carry(**options);
  if (status.ok()) return 0;
  std::cerr << "slow_network: " << status.message() << "\n";
  return 1;
}
