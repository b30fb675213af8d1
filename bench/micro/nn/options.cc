#include "bench/micro/nn/options.h"

#include <ostream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>

#include "simurgh/base/version.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "bench_nn: what a step of the dense network costs on this machine's cores\n\n"
    "Usage: bench_nn [options]\n\n";

constexpr char kNotes[] =
    "A line for each product of each linear layer: forward, weight (the gradient of the weights) "
    "and\n"
    "input (that of the inputs), beside oneDNN's own inner product of the same shape, whose "
    "operands\n"
    "lie as it likes best before the clock starts. Then lines for whole steps: forward and "
    "backward,\n"
    "the optimizer (Adam), and what forward and backward spend beside their products (other).\n"
    "gflops counts 2 operations for each multiplication and addition of the products.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad options.\n";

constexpr size_t kMostSamples = 65'536;

Status Problem(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " (--help lists the options)"));
}

StatusOr<std::vector<std::string>> Models(const std::string& text) {
  std::vector<std::string> models = absl::StrSplit(text, ',');
  for (const std::string& model : models) {
    if (LayerWidths(model).empty()) {
      return Problem(absl::StrCat("--model: no model '", model, "'; there are light and paper"));
    }
  }
  return models;
}

StatusOr<std::vector<size_t>> Batches(const std::string& text) {
  std::vector<size_t> batches;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    size_t samples = 0;
    if (!absl::SimpleAtoi(word, &samples) || samples == 0 || samples > kMostSamples) {
      return Problem(
          absl::StrCat("--batch: '", word, "' is not a number from 1 to ", kMostSamples));
    }
    batches.push_back(samples);
  }
  return batches;
}

}  // namespace

std::vector<size_t> LayerWidths(const std::string& model) {
  if (model == "light") return {256, 128, 64, 1};
  if (model == "paper") return {4'096, 2'048, 1'024, 512, 256, 1};
  return {};
}

StatusOr<std::optional<NnBenchOptions>> ParseNnBenchOptions(int argc, char** argv,
                                                            std::ostream& out) {
  NnBenchOptions options;
  std::string models;
  std::string batches;
  po::options_description description("Options");
  const auto number = [](auto& value, auto standard) {
    return po::value(&value)->value_name("N")->default_value(standard);
  };
  description.add_options()(
      "model", po::value(&models)->value_name("LIST")->default_value("light,paper"),
      "light: 256-128-64, paper: 4096-2048-1024-512-256, both over 429 inputs")(
      "batch", po::value(&batches)->value_name("LIST")->default_value("512,4096"),
      "samples of a batch")("threads", number(options.threads, std::thread::hardware_concurrency()),
                            "that compute")("seconds", number(options.seconds, 1.0),
                                            "of a measurement, at least")(
      "turns", number(options.turns, 5U), "times that everything is measured")(
      "json", po::bool_switch(&options.json), "one object a line instead of a table")(
      "help", "prints this and exits")("version", "prints the version and exits");
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv).options(description).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    return Problem(error.what());
  }
  if (values.count("help") > 0) {
    out << kUsage << description << "\n" << kNotes;
    return std::nullopt;
  }
  if (values.count("version") > 0) {
    out << "bench_nn " << Version() << "\n";
    return std::nullopt;
  }
  SIMURGH_ASSIGN_OR_RETURN(options.models, Models(models));
  SIMURGH_ASSIGN_OR_RETURN(options.batches, Batches(batches));
  if (options.threads == 0 || options.turns == 0 || !(options.seconds > 0)) {
    return Problem("--threads, --turns and --seconds take more than 0");
  }
  return options;
}

}  // namespace simurgh::bench
