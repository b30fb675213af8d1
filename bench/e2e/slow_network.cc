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
    "slow_network: carries what daemons of this machine say to one another, late and at a limited "
    "rate\n\n"
    "Usage: slow_network [options] NAMESPACE...\n"
    "       slow_network [options] --proxies ADDRESS=SERVER...\n\n"
    "Between network namespaces (ip netns add NAMESPACE) it carries all packets. Each gets a "
    "device slow0;\n"
    "the first has the address 10.77.0.1, the next 10.77.0.2, and so on. The devices go with it. "
    "Needs the\n"
    "rights of root.\n\n"
    "As proxies it carries the connections to each ADDRESS (tcp://127.0.0.1:1234) on to its "
    "SERVER, without\n"
    "rights, and nothing that passes beside them.\n\n"
    "Prints 'ready' once it is up, and runs until it is ended (SIGTERM).\n\n";

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
      return absl::InvalidArgumentError(absl::StrCat("'", place, "' is no ADDRESS=SERVER"));
    }
    addresses.push_back({.from = place.substr(0, sign), .to = place.substr(sign + 1)});
  }
  return CarryConnections(addresses, delay, bytes_per_second);
}

Status Check(const Options& options) {
  if (options.proxies && options.places.empty()) {
    return absl::InvalidArgumentError("name an ADDRESS=SERVER");
  }
  if (!options.proxies && (options.places.size() < 2 || options.places.size() > kMaxHosts)) {
    return absl::InvalidArgumentError(absl::StrCat("name 2 to ", kMaxHosts, " namespaces"));
  }
  if (!(options.delay_ms >= 0 && options.delay_ms <= 10'000)) {
    return absl::InvalidArgumentError("--delay-ms takes 0 to 10000");
  }
  if (!(options.gbit_per_s > 0)) return absl::InvalidArgumentError("--gbit takes more than 0");
  return absl::OkStatus();
}

// Nothing: all has been said.
StatusOr<std::optional<Options>> Parse(int argc, char** argv) {
  Options options;
  const auto number = [](double& value) {
    return po::value(&value)->value_name("X")->default_value(value);
  };
  po::options_description named("Options");
  named.add_options()("delay-ms", number(options.delay_ms), "one way");
  named.add_options()("gbit", number(options.gbit_per_s),
                      "Gbit/s that each namespace may send, or each direction of a connection");
  named.add_options()("proxies", po::bool_switch(&options.proxies), "proxies, not namespaces");
  named.add_options()("help", "prints this and exits");
  named.add_options()("version", "prints the version and exits");
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
