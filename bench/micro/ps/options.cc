#include "bench/micro/ps/options.h"

#include <algorithm>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>

#include "simurgh/base/version.h"

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

constexpr uint32_t kMostDim = 1'024;
constexpr uint32_t kMostInFlight = 64;
constexpr uint32_t kMostPartitions = 64;

Status Problem(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " (--help lists the options)"));
}

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

StatusOr<std::vector<uint32_t>> Numbers(const char* option, const std::string& text,
                                        uint32_t most) {
  std::vector<uint32_t> numbers;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(word, &number) || number == 0 || number > most) {
      return Problem(absl::StrCat(option, ": '", word, "' is not a number from 1 to ", most));
    }
    numbers.push_back(number);
  }
  return numbers;
}

Status Take(const Given& given, PsBenchOptions& options) {
  options.transports.clear();
  for (const absl::string_view word : absl::StrSplit(given.transports, ',')) {
    if (word != "tcp" && word != "unix" && word != "shm") {
      return Problem(absl::StrCat("--transport: '", word, "' is not tcp, unix or shm"));
    }
    options.transports.emplace_back(word);
  }
  SIMURGH_ASSIGN_OR_RETURN(options.dims, Numbers("--dim", given.dims, kMostDim));
  SIMURGH_ASSIGN_OR_RETURN(options.in_flight,
                           Numbers("--in-flight", given.in_flight, kMostInFlight));
  SIMURGH_ASSIGN_OR_RETURN(options.partitions,
                           Numbers("--partitions", given.partitions, kMostPartitions));
  if (given.quick) {
    options.in_flight = {4};
    options.partitions = {1};
    options.rows /= 10;
    options.turns = std::min<size_t>(options.turns, 3);
  }
  // Distinct ids are drawn by rejection.
  if (options.rows < 65'536 || options.rows > 100'000'000) {
    return Problem("--rows must be 65536 to 100000000, ten times that with --quick");
  }
  if (options.turns < 1 || options.turns > 1'000) return Problem("--turns must be 1 to 1000");
  if (!(options.seconds > 0 && options.seconds <= 60)) {
    return Problem("--seconds must be above 0, at most 60");
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::optional<PsBenchOptions>> ParsePsBenchOptions(int argc, const char* const* argv,
                                                            std::ostream& out) {
  PsBenchOptions options;
  Given given;
  const po::options_description description = Describe(options, given);
  po::variables_map parsed;
  try {
    constexpr int kExactNames =
        po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(argc, argv)
                  .options(description)
                  .positional({})
                  .style(kExactNames)
                  .run(),
              parsed);
    if (parsed.count("help") > 0) {
      out << kUsage << description << "\n" << kNotes;
      return std::nullopt;
    }
    if (parsed.count("version") > 0) {
      out << "bench_ps " << Version() << "\n";
      return std::nullopt;
    }
    po::notify(parsed);
  } catch (const po::error& error) {
    return Problem(error.what());
  }
  SIMURGH_RETURN_IF_ERROR(Take(given, options));
  return options;
}

}  // namespace simurgh::bench
