// Proxies with delay and limited bandwidth. See --help.

#include <chrono>
#include <csignal>
#include <iostream>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include <sys/prctl.h>

#include "absl/strings/str_cat.h"
#include <boost/asio/signal_set.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>

#include "base/version.h"
#include "tests/support/rpc/proxy.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "slow_network: carries connections of daemons on this machine with a delay and a limited "
    "rate\n\n"
    "Usage: slow_network [options] ADDRESS=SERVER...\n\n"
    "Carries connections to each ADDRESS (tcp://127.0.0.1:1234) to its SERVER.\n"
    "Prints 'ready' when it is up and runs until SIGTERM or SIGINT.\n\n";

struct Options {
  double delay_ms = 1;
  double gbit_per_s = 10;
  std::vector<std::string> proxies;  // ADDRESS=SERVER.
};

Status Carry(const Options& options) {
  const auto delay = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double, std::milli>(options.delay_ms));
  rpc::asio::io_context loop(1);
  rpc::asio::signal_set end(loop, SIGTERM, SIGINT);
  end.async_wait([&loop](const auto& /*error*/, int /*signal*/) { loop.stop(); });
  std::list<rpc::testing::DelayingProxy> proxies;
  for (const std::string& pair : options.proxies) {
    const size_t sign = pair.find('=');
    if (sign == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", pair, "' is invalid; use ADDRESS=SERVER"));
    }
    const std::string server = pair.substr(sign + 1);
    SIMURGH_RETURN_IF_ERROR(rpc::ParseAddress(server).status());
    auto& proxy = proxies.emplace_back(loop.get_executor(), delay, options.gbit_per_s * 1e9 / 8);
    SIMURGH_RETURN_IF_ERROR(proxy.Listen(pair.substr(0, sign)));
    proxy.SetTarget(server);
  }
  std::cout << "ready" << std::endl;
  loop.run();
  return absl::OkStatus();
}

Status Check(const Options& options) {
  if (options.proxies.empty()) {
    return absl::InvalidArgumentError("no address is given; use ADDRESS=SERVER");
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
                      "Gbit/s limit of each direction of a connection");
  named.add_options()("help", "print this text");
  named.add_options()("version", "print the version");
  po::options_description all = named;
  all.add_options()("proxy", po::value(&options.proxies));
  po::positional_options_description positions;
  positions.add("proxy", -1);
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
