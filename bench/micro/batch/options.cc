#include "bench/micro/batch/options.h"

#include <algorithm>
#include <ostream>

#include <boost/program_options/value_semantic.hpp>

#include "bench/micro/batch/samples.h"
#include "services/runtime/command_line.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "bench_batch: how small a batch's ID features travel, and how fast they are packed\n\n"
    "Usage: bench_batch [options]\n\n";

constexpr char kNotes[] =
    "26 single-valued features with the cardinalities of Criteo's data, ids uniform in 64 bits.\n"
    "One thread. make is build and encode; rates are occurrences a second, the median of the\n"
    "turns. of_bare: bytes over 8 an occurrence; of_plain: over 12 (ids and lengths); of_persia:\n"
    "over 28 a unique id and 8 an occurrence. entropy: the floor of of_bare, 64 bits a unique id\n"
    "without their order, and the empirical entropy of each feature's occurrences.\n\n"
    "Exit codes: 0 done, 2 bad options.\n";

struct Given {
  std::string distributions = "zipf1.05,zipf1.2,uniform";
  std::string samples = "1024,2048,4096,8192,16384,32768,65535";
  double missing = 0.03;
  int64_t turns = 5;
  bool quick = false;
};

po::options_description Describe(BatchBenchOptions& options, Given& given) {
  po::options_description description("Options");
  const auto list = [](std::string& value) {
    return po::value(&value)->value_name("LIST")->default_value(value);
  };
  description.add_options()("distribution", list(given.distributions),
                            "of ids: zipf1.05, zipf1.2, uniform")("samples", list(given.samples),
                                                                  "of a batch, 1 to 65535")(
      "missing", po::value(&given.missing)->value_name("P")->default_value(given.missing),
      "probability that a cell has no id")(
      "turns", po::value(&given.turns)->value_name("N")->default_value(given.turns),
      "times that everything is measured")("quick", po::bool_switch(&given.quick),
                                           "4096 and 16384 samples, two turns")(
      "json", po::bool_switch(&options.json), "one object a line instead of a table")(
      "help", "prints this and exits")("version", "prints the version and exits");
  return description;
}

Status Take(const Given& given, BatchBenchOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(options.distributions,
                           ParseWords("--distribution", given.distributions,
                                      {std::begin(kDistributions), std::end(kDistributions)}));
  SIMURGH_ASSIGN_OR_RETURN(
      const std::vector<uint32_t> samples,
      ParseNumbers("--samples", given.quick ? "4096,16384" : given.samples, kMaxBatchSamples));
  options.samples.assign(samples.begin(), samples.end());
  if (!(given.missing >= 0.0 && given.missing < 1.0)) {
    return OptionProblem("--missing must be from 0, below 1");
  }
  if (given.turns < 1 || given.turns > 1000) return OptionProblem("--turns must be 1 to 1000");
  options.missing = given.missing;
  options.turns = given.quick ? std::min<int64_t>(2, given.turns) : given.turns;
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::optional<BatchBenchOptions>> ParseBatchBenchOptions(int argc, const char* const* argv,
                                                                  std::ostream& out) {
  BatchBenchOptions options;
  Given given;
  const po::options_description description = Describe(options, given);
  SIMURGH_ASSIGN_OR_RETURN(
      const bool go_on,
      ParseCommandLine(argc, argv, {"bench_batch", kUsage, kNotes}, description, out));
  if (!go_on) return std::nullopt;
  SIMURGH_RETURN_IF_ERROR(Take(given, options));
  return options;
}

}  // namespace simurgh::bench
