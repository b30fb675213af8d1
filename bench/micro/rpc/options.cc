#include "bench/micro/rpc/options.h"

#include <ostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/micro/rpc/workload.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>

#include "simurgh/base/version.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kAbout[] =
    "bench_rpc: requests per second, latency, CPU time and memory of the rpc library.\n"
    "\n"
    "Two processes on this machine, client and server, one connection: a request of N bytes is\n"
    "answered with N bytes; both land in a contiguous buffer that its receiver has named.\n"
    "\n"
    "Usage: bench_rpc [options]\n";

constexpr uint64_t kMaxBytes = uint64_t{512} << 20;
constexpr uint32_t kMaxInFlight = 1'024;

struct Given {
  std::string transports, bytes, in_flight, peers;
  uint32_t repeat = 0;
  double seconds = 0;
  bool quick = false;
  bool json = false;
};

po::options_description Describe(Given& given) {
  po::options_description options("Options");
  options.add_options()("transport",
                        po::value(&given.transports)->value_name("LIST")->default_value("tcp,unix"),
                        "tcp, unix")("bytes", po::value(&given.bytes)->value_name("LIST"),
                                     "payload sizes, as in 64,4Ki,1Mi (default: 64 B to 64 MiB)")(
      "in-flight", po::value(&given.in_flight)->value_name("LIST"),
      "requests at once (default: 1,8,64); points above 512 MiB in flight are skipped")(
      "peers",
      po::value(&given.peers)->value_name("LIST")->implicit_value("raw,grpc,grpc-bytebuffer"),
      "the same with others in turns, and ratios of medians: raw, raw-gather, grpc, "
      "grpc-bytebuffer (as --peers=LIST; --peers alone: raw and both of gRPC)")(
      "repeat", po::value(&given.repeat)->value_name("N"),
      "measurements of each point (default: 5); peers take turns (A, B, C, A, B, C, ...)")(
      "seconds", po::value(&given.seconds)->value_name("S"),
      "of a measurement (default: 0.5); a quarter more before the clock starts")(
      "quick", po::bool_switch(&given.quick),
      "64, 64Ki and 1Mi bytes, 1 and 8 in flight, 3 measurements of 0.2 s")(
      "json", po::bool_switch(&given.json),
      "one object a line for each point and peer (medians of the measurements) and no table")(
      "help", "prints this and exits")("version", "prints the version and exits");
  return options;
}

Status Problem(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " (--help lists the options)"));
}

std::vector<std::string> Split(const std::string& list) {
  return absl::StrSplit(list, ',', absl::SkipEmpty());
}

Status CheckTransports(const std::vector<std::string>& transports) {
  for (const std::string& one : transports) {
    if (one != "tcp" && one != "unix") {
      return Problem(absl::StrCat("no transport '", one, "'; there are tcp and unix"));
    }
  }
  return transports.empty() ? Problem("--transport names none") : absl::OkStatus();
}

Status CheckPeers(const std::vector<std::string>& peers) {
  for (const std::string& one : peers) {
    if (one != "raw" && one != "raw-gather" && one != "grpc" && one != "grpc-bytebuffer") {
      return Problem(
          absl::StrCat("no peer '", one, "'; there are raw, raw-gather, grpc and grpc-bytebuffer"));
    }
  }
  return absl::OkStatus();
}

StatusOr<Options> Check(const Given& given) {
  Options options;
  options.json = given.json;
  options.transports = Split(given.transports);
  SIMURGH_RETURN_IF_ERROR(CheckTransports(options.transports));
  options.peers = Split(given.peers);
  SIMURGH_RETURN_IF_ERROR(CheckPeers(options.peers));

  const char* sizes = given.quick ? "64,64Ki,1Mi" : "64,256,1Ki,4Ki,16Ki,64Ki,256Ki,1Mi,8Mi,64Mi";
  for (const std::string& text : Split(given.bytes.empty() ? sizes : given.bytes)) {
    SIMURGH_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(text));
    options.bytes.push_back(bytes);
  }
  const char* depths = given.quick ? "1,8" : "1,8,64";
  for (const std::string& text : Split(given.in_flight.empty() ? depths : given.in_flight)) {
    uint32_t depth = 0;
    if (!absl::SimpleAtoi(text, &depth) || depth == 0 || depth > kMaxInFlight) {
      return Problem(absl::StrCat("--in-flight ", text, " is not a number from 1 to 1024"));
    }
    options.in_flight.push_back(depth);
  }
  options.repeat = given.repeat != 0 ? given.repeat : given.quick ? 3 : 5;
  options.seconds = given.seconds != 0 ? given.seconds : given.quick ? 0.2 : 0.5;
  if (options.seconds <= 0) return Problem("--seconds must be above 0");
  return options;
}

}  // namespace

StatusOr<std::optional<Options>> ParseOptions(int argc, const char* const* argv,
                                              std::ostream& out) {
  Given given;
  const po::options_description options = Describe(given);
  try {
    constexpr int kExactNames =
        po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::variables_map values;
    const po::positional_options_description no_positions;
    po::store(po::command_line_parser(argc, argv)
                  .options(options)
                  .positional(no_positions)
                  .style(kExactNames)
                  .run(),
              values);
    if (values.count("help") > 0) {
      out << kAbout << "\n" << options;
      return std::nullopt;
    }
    if (values.count("version") > 0) {
      out << "bench_rpc " << Version() << "\n";
      return std::nullopt;
    }
    po::notify(values);
  } catch (const po::error& error) {
    return Problem(error.what());
  }
  SIMURGH_ASSIGN_OR_RETURN(Options checked, Check(given));
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
    return Problem(absl::StrCat("'", text, "' is not a size from 8 to 512Mi bytes"));
  }
  return count << shift;
}

std::string BytesText(uint64_t bytes) {
  if (bytes % (1 << 20) == 0) return absl::StrCat(bytes >> 20, "Mi");
  if (bytes % (1 << 10) == 0) return absl::StrCat(bytes >> 10, "Ki");
  return absl::StrCat(bytes);
}

}  // namespace simurgh::bench
