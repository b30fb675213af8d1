#include "bench/micro/rpc/options.h"

#include <algorithm>
#include <ostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "bench/micro/rpc/sweep.h"
#include "bench/micro/rpc/workload.h"
#include "services/runtime/command_line.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kAbout[] =
    "bench_rpc: requests per second, latency, CPU time and memory of the rpc library.\n"
    "\n"
    "Two processes on this machine, client and server, one connection: a request of N bytes is\n"
    "answered with N bytes, each of them in one piece where its receiver wants it.\n"
    "bench/README.md explains what is measured.\n"
    "\n"
    "Usage: bench_rpc [options]\n\n";

constexpr uint64_t kMaxBytes = uint64_t{512} << 20;
constexpr uint32_t kMaxInFlight = 1'024;
constexpr uint32_t kMaxRepeat = 1'000;
constexpr double kMaxSeconds = 3'600;
constexpr uint32_t kMaxSpinUs = 1'000'000;

constexpr char kAllBytes[] = "64,256,1Ki,4Ki,16Ki,64Ki,256Ki,1Mi,8Mi,64Mi";
constexpr char kQuickBytes[] = "64,64Ki,1Mi";

struct Given {
  std::string works = "echo";
  std::string transports = "tcp,unix,shm";
  std::string bytes, in_flight, peers, repeat, seconds;
  std::string max_spin_us = "100";
  bool quick = false;
  bool json = false;
};

po::options_description Describe(Given& given) {
  po::options_description options("Options");
  const auto list = [](std::string& value) { return po::value(&value)->value_name("LIST"); };
  options.add_options()("transport", list(given.transports)->default_value(given.transports),
                        "tcp, unix, shm");
  options.add_options()("work", list(given.works)->default_value(given.works),
                        "echo: the server sends back what it received; ready: both ends send what "
                        "lies ready and read every byte; produce: they write every byte, too");
  options.add_options()("bytes", list(given.bytes),
                        "payload sizes, as in 64,4Ki,1Mi (default: 64 B to 64 MiB)");
  options.add_options()(
      "in-flight", list(given.in_flight),
      "requests at once (default: 1,8,64); points above 512 MiB in flight are skipped");
  options.add_options()(
      "peers", list(given.peers)->implicit_value("raw,grpc,grpc-bytebuffer"),
      "echo with others, too, and ratios of medians. --peers=LIST of raw, raw-gather, grpc, "
      "grpc-bytebuffer; --peers alone: raw and both of gRPC");
  options.add_options()("repeat", po::value(&given.repeat)->value_name("N"),
                        "measurements of each point (default: 5); transports and peers take turns");
  options.add_options()("seconds", po::value(&given.seconds)->value_name("S"),
                        "of a measurement (default: 0.5); a quarter more before the clock starts");
  options.add_options()(
      "max-spin", po::value(&given.max_spin_us)->value_name("US")->default_value(given.max_spin_us),
      "how long our event loops look for events before they sleep, microseconds");
  options.add_options()("quick", po::bool_switch(&given.quick),
                        "64, 64Ki and 1Mi bytes, 1 and 8 in flight, 3 measurements of 0.2 s");
  options.add_options()(
      "json", po::bool_switch(&given.json),
      "one object a line for each point, transport and peer (medians), and no table");
  options.add_options()("help", "prints this and exits")("version", "prints the version and exits");
  return options;
}

Status TakeWords(const Given& given, Options& options) {
  SIMURGH_ASSIGN_OR_RETURN(options.transports,
                           ParseWords("--transport", given.transports, {"tcp", "unix", "shm"}));
  if (!given.peers.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(
        options.peers,
        ParseWords("--peers", given.peers, {"raw", "raw-gather", "grpc", "grpc-bytebuffer"}));
  }
  std::vector<std::string> names;
  constexpr Work kWorks[] = {Work::kEcho, Work::kReady, Work::kProduce};
  for (const Work work : kWorks) names.push_back(NameOf(work));
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> wanted,
                           ParseWords("--work", given.works, names));
  for (const std::string& name : wanted) {
    options.works.push_back(kWorks[std::ranges::find(names, name) - names.begin()]);
  }
  return absl::OkStatus();
}

StatusOr<uint32_t> ParseNumber(const std::string& option, const std::string& text, uint32_t most,
                               uint32_t least) {
  SIMURGH_ASSIGN_OR_RETURN(const auto numbers, ParseNumbers(option, text, most, least));
  if (numbers.size() == 1) return numbers[0];
  return OptionProblem(absl::StrCat(option, ": '", text, "' is more than one number"));
}

StatusOr<double> ParseSeconds(const std::string& text) {
  double seconds = 0;
  // NaN is neither.
  if (absl::SimpleAtod(text, &seconds) && seconds > 0 && seconds <= kMaxSeconds) return seconds;
  return OptionProblem(
      absl::StrCat("--seconds: '", text, "' is not a number above 0, up to ", kMaxSeconds));
}

Status TakeNumbers(const Given& given, Options& options) {
  const std::string sizes = given.quick ? kQuickBytes : kAllBytes;
  for (const absl::string_view text :
       absl::StrSplit(given.bytes.empty() ? sizes : given.bytes, ',')) {
    SIMURGH_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(std::string(text)));
    options.bytes.push_back(bytes);
  }
  const std::string depths = given.quick ? "1,8" : "1,8,64";
  SIMURGH_ASSIGN_OR_RETURN(
      options.in_flight,
      ParseNumbers("--in-flight", given.in_flight.empty() ? depths : given.in_flight,
                   kMaxInFlight));
  options.repeat = given.quick ? 3 : 5;
  options.seconds = given.quick ? 0.2 : 0.5;
  if (!given.repeat.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(options.repeat, ParseNumber("--repeat", given.repeat, kMaxRepeat, 1));
  }
  if (!given.seconds.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(options.seconds, ParseSeconds(given.seconds));
  }
  SIMURGH_ASSIGN_OR_RETURN(options.max_spin_us,
                           ParseNumber("--max-spin", given.max_spin_us, kMaxSpinUs, 0));
  options.json = given.json;
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::optional<Options>> ParseOptions(int argc, const char* const* argv,
                                              std::ostream& out) {
  Given given;
  const po::options_description options = Describe(given);
  SIMURGH_ASSIGN_OR_RETURN(const bool go_on,
                           ParseCommandLine(argc, argv, {"bench_rpc", kAbout, ""}, options, out));
  if (!go_on) return std::nullopt;
  Options checked;
  SIMURGH_RETURN_IF_ERROR(TakeWords(given, checked));
  SIMURGH_RETURN_IF_ERROR(TakeNumbers(given, checked));
  return checked;
}

StatusOr<uint64_t> ParseBytes(const std::string& text) {
  std::string digits = text;
  uint32_t shift = 0;
  if (text.ends_with("Ki")) shift = 10;
  if (text.ends_with("Mi")) shift = 20;
  if (shift != 0) digits.resize(text.size() - 2);
  uint64_t count = 0;
  if (!absl::SimpleAtoi(digits, &count) || count > kMaxBytes >> shift ||
      count << shift < Workload::kMinBytes) {
    return OptionProblem(absl::StrCat("--bytes: '", text, "' is not a size from 8 to 512Mi"));
  }
  return count << shift;
}

std::string BytesText(uint64_t bytes) {
  if (bytes % (1 << 20) == 0) return absl::StrCat(bytes >> 20, "Mi");
  if (bytes % (1 << 10) == 0) return absl::StrCat(bytes >> 10, "Ki");
  return absl::StrCat(bytes);
}

}  // namespace simurgh::bench
