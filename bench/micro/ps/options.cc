#include "bench/micro/ps/options.h"

#include <algorithm>
#include <ostream>

#include <boost/program_options/value_semantic.hpp>

#include "services/runtime/command_line.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "bench_ps: how near a parameter server comes to the slower of its table and its transport\n\n"
    "Usage: bench_ps [options]\n\n";

constexpr char kNotes[] =
    "served: an embedding-ps process, driven from this one with batches of 4096 distinct ids.\n"
    "table: the same batches in this process, without a server, a thread a partition.\n"
    "transport: another process that answers the same requests with as many bytes, and has no\n"
    "rows. All three take turns. share is served over the slower of the other two, the median of\n"
    "the turns.\n\n"
    "Memory: about (4 * dim * 2 + 60) bytes a row and dim, twice.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad options.\n";

constexpr uint32_t kMaxDim = 1'024;
constexpr uint32_t kMaxInFlight = 64;
constexpr uint32_t kMaxPartitions = 64;

struct Given {
  std::string transports = "tcp,unix,shm";
  std::string dims = "16,64";
  std::string in_flight = "1,4";
  std::string partitions = "1,2";
  bool quick = false;
};

po::options_description Describe(PsBenchOptions& options, Given& given) {
  po::options_description description("Options");
  const auto list = [](std::string& value) {
    return po::value(&value)->value_name("LIST")->default_value(value);
  };
  const auto number = [](auto& value) {
    return po::value(&value)->value_name("N")->default_value(value);
  };
  description.add_options()("transport", list(given.transports), "tcp, unix, shm")(
      "dim", list(given.dims), "dims, 1 to 1024")("in-flight", list(given.in_flight),
                                                  "requests at a time, 1 to 64")(
      "partitions", list(given.partitions), "of the server, 1 to 64")("rows", number(options.rows),
                                                                      "of the table")(
      "seconds", number(options.seconds), "of a measurement")("turns", number(options.turns),
                                                              "times that everything is measured")(
      "quick", po::bool_switch(&given.quick),
      "4 in flight, 1 partition, a tenth of the rows, 3 turns")(
      "json", po::bool_switch(&options.json), "one object a line instead of a table")(
      "help", "prints this and exits")("version", "prints the version and exits");
  return description;
}

Status Take(const Given& given, PsBenchOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(options.transports,
                           ParseWords("--transport", given.transports, {"tcp", "unix", "shm"}));
  SIMURGH_ASSIGN_OR_RETURN(options.dims, ParseNumbers("--dim", given.dims, kMaxDim));
  SIMURGH_ASSIGN_OR_RETURN(options.in_flight,
                           ParseNumbers("--in-flight", given.in_flight, kMaxInFlight));
  SIMURGH_ASSIGN_OR_RETURN(options.partitions,
                           ParseNumbers("--partitions", given.partitions, kMaxPartitions));
  if (given.quick) {
    options.in_flight = {4};
    options.partitions = {1};
    options.rows /= 10;
    options.turns = std::min<size_t>(options.turns, 3);
  }
  // Distinct ids are drawn by rejection.
  if (options.rows < 65'536 || options.rows > 100'000'000) {
    return OptionProblem("--rows must be 65536 to 100000000, ten times that with --quick");
  }
  if (options.turns < 1 || options.turns > 1'000) return OptionProblem("--turns must be 1 to 1000");
  if (!(options.seconds > 0 && options.seconds <= 60)) {
    return OptionProblem("--seconds must be above 0, at most 60");
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::optional<PsBenchOptions>> ParsePsBenchOptions(int argc, const char* const* argv,
                                                            std::ostream& out) {
  PsBenchOptions options;
  Given given;
  const po::options_description description = Describe(options, given);
  SIMURGH_ASSIGN_OR_RETURN(
      const bool go_on,
      ParseCommandLine(argc, argv, {"bench_ps", kUsage, kNotes}, description, out));
  if (!go_on) return std::nullopt;
  SIMURGH_RETURN_IF_ERROR(Take(given, options));
  return options;
}

}  // namespace simurgh::bench
