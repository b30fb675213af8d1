#include "bench/micro/worker/options.h"

#include <algorithm>
#include <ostream>

#include <boost/program_options/value_semantic.hpp>

#include "services/runtime/command_line.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "bench_worker: lookups and backward passes through an embedding worker and two servers\n\n"
    "Usage: bench_worker [options]\n\n";

constexpr char kNotes[] =
    "Batches of 26 single-valued features with the cardinalities of Criteo's data, Zipf 1.05,\n"
    "summed, Adagrad, f32 rows. For each, this process does what a trainer does around its dense\n"
    "network: it encodes and submits the ids, pulls the embeddings and pushes gradients that lie\n"
    "ready. Two embedding-ps of one partition and the embedding-worker are processes of their "
    "own.\n"
    "64 batches go around, after each has been through once.\n\n"
    "occ/s/core: occurrences, forward and backward, by the CPU seconds that all four processes\n"
    "used together. Shares are of these seconds, by process; stages are shares of the time that\n"
    "the worker says a batch spends in them (pull and push: mostly waiting for the servers).\n"
    "With --row-age the worker gives a row once more for so many steps.\n"
    "Bytes a sample: on each hop, metadata included, as the worker counts them. Medians of the\n"
    "turns.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad options.\n";

// Steps may lie open at a server for so many.
constexpr uint32_t kMaxInFlight = 32;

constexpr uint32_t kOldestRows = 63;

struct Given {
  std::string transports = "tcp,shm";
  std::string precisions = "f32,bf16,int8";
  std::string row_precisions = "f32";
  std::string row_ages = "0";
  std::string in_flight = "4";
  bool quick = false;
};

Status Take(const Given& given, WorkerBenchOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(options.transports,
                           ParseWords("--transport", given.transports, {"tcp", "unix", "shm"}));
  SIMURGH_ASSIGN_OR_RETURN(options.precisions, ParseWords("--precision", given.precisions,
                                                          {"f32", "bf16", "f16", "int8"}));
  SIMURGH_ASSIGN_OR_RETURN(
      options.row_precisions,
      ParseWords("--row-precision", given.row_precisions, {"f32", "bf16", "f16"}));
  SIMURGH_ASSIGN_OR_RETURN(options.row_ages,
                           ParseNumbers("--row-age", given.row_ages, kOldestRows, /*least=*/0));
  SIMURGH_ASSIGN_OR_RETURN(options.in_flight,
                           ParseNumbers("--in-flight", given.in_flight, kMaxInFlight));
  if (given.quick) {
    options.transports = {options.transports.front()};
    options.precisions = {options.precisions.front()};
    options.row_precisions = {options.row_precisions.front()};
    options.row_ages = {options.row_ages.front()};
    options.seconds = std::min(options.seconds, 1.0);
    options.turns = 1;
  }
  if (options.samples < 1 || options.samples > 65'535)
    return OptionProblem("--samples: 1 to 65535");
  if (options.dim < 1 || options.dim > 1'024) return OptionProblem("--dim: 1 to 1024");
  if (options.turns < 1 || options.turns > 1'000) return OptionProblem("--turns: 1 to 1000");
  if (!(options.seconds > 0 && options.seconds <= 60)) {
    return OptionProblem("--seconds: above 0, at most 60");
  }
  return absl::OkStatus();
}

po::options_description Describe(WorkerBenchOptions& options, Given& given) {
  po::options_description description("Options");
  const auto list = [](std::string& value) {
    return po::value(&value)->value_name("LIST")->default_value(value);
  };
  const auto number = [](auto& value) {
    return po::value(&value)->value_name("N")->default_value(value);
  };
  description.add_options()("transport", list(given.transports), "tcp, unix, shm")(
      "precision", list(given.precisions), "of embeddings and gradients: f32, bf16, f16, int8")(
      "row-precision", list(given.row_precisions), "of rows and their gradients: f32, bf16, f16")(
      "row-age", list(given.row_ages), "steps for which the worker gives a row once more: 0 to 63")(
      "in-flight", list(given.in_flight), "batches at a time, 1 to 32")(
      "samples", number(options.samples), "of a batch")("dim", number(options.dim), "of rows")(
      "seconds", number(options.seconds), "of a measurement")("turns", number(options.turns),
                                                              "times that everything is measured")(
      "quick", po::bool_switch(&given.quick),
      "the first of each list but in-flight, 1 turn of 1 s")(
      "json", po::bool_switch(&options.json), "one object a line instead of a table")(
      "help", "prints this and exits")("version", "prints the version and exits");
  return description;
}

}  // namespace

StatusOr<std::optional<WorkerBenchOptions>> ParseWorkerBenchOptions(int argc,
                                                                    const char* const* argv,
                                                                    std::ostream& out) {
  WorkerBenchOptions options;
  Given given;
  const po::options_description description = Describe(options, given);
  SIMURGH_ASSIGN_OR_RETURN(
      const bool go_on,
      ParseCommandLine(argc, argv, {"bench_worker", kUsage, kNotes}, description, out));
  if (!go_on) return std::nullopt;
  SIMURGH_RETURN_IF_ERROR(Take(given, options));
  return options;
}

}  // namespace simurgh::bench
