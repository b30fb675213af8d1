#include "bench/micro/nn/options.h"

#include <ostream>
#include <thread>

#include <boost/program_options/value_semantic.hpp>

#include "nn/cpu/bf16_products.h"
#include "services/runtime/command_line.h"
#include "simurgh/base/version.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "bench_nn: what a step of the dense network costs on this machine's cores\n\n"
    "Usage: bench_nn [options]\n\n";

constexpr char kNotes[] =
    "A line for each product of each linear layer: forward, weight (the gradient of the weights)\n"
    "and input (that of the inputs), beside oneDNN's own inner product of the same shape, whose\n"
    "operands lie as it likes best, and in bf16 are bf16, before the clock starts; `all products`\n"
    "adds them up. Then interactions, cross layers (with their products) and batch norms, the\n"
    "relus forward and back (activations), and from whole steps: what forward and backward spend\n"
    "beside the linear layers' products (other: all of these, loss, copies), and the optimizer\n"
    "(Adam). gflops counts 2 operations for each multiplication and addition of the products.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad options.\n";

constexpr uint32_t kMaxSamples = 65'536;

}  // namespace

StatusOr<std::optional<NnBenchOptions>> ParseNnBenchOptions(int argc, char** argv,
                                                            std::ostream& out) {
  NnBenchOptions options;
  std::string models;
  std::string batches;
  std::string precisions;
  po::options_description description("Options");
  const auto number = [](auto& value, auto standard) {
    return po::value(&value)->value_name("N")->default_value(standard);
  };
  description.add_options()(
      "model", po::value(&models)->value_name("LIST")->default_value("light,paper,dlrm"),
      "light: 256-128-64, paper: 4096-2048-1024-512-256, both over 429 inputs; dlrm: 26 embeddings "
      "of 128, MLPerf's towers; dcn: 429 inputs, three cross layers beside 1024-512 with batch "
      "norm")("batch", po::value(&batches)->value_name("LIST")->default_value("512,4096"),
              "samples of a batch")(
      "precision",
      po::value(&precisions)
          ->value_name("LIST")
          ->default_value(cpu::HasBf16Products() ? "f32,bf16" : "f32"),
      "of the products: f32, bf16; the latter is slow where the CPU has no instructions for it")(
      "threads", number(options.threads, std::thread::hardware_concurrency()), "that compute")(
      "seconds", number(options.seconds, 1.0), "of a measurement, at least")(
      "turns", number(options.turns, 5U), "times that everything is measured")(
      "json", po::bool_switch(&options.json), "one object a line instead of a table")(
      "help", "prints this and exits")("version", "prints the version and exits");
  SIMURGH_ASSIGN_OR_RETURN(
      const bool go_on,
      ParseCommandLine(argc, argv, {"bench_nn", kUsage, kNotes}, description, out));
  if (!go_on) return std::nullopt;
  SIMURGH_ASSIGN_OR_RETURN(options.models,
                           ParseWords("--model", models, {"light", "paper", "dlrm", "dcn"}));
  SIMURGH_ASSIGN_OR_RETURN(options.batches, ParseNumbers("--batch", batches, kMaxSamples));
  SIMURGH_ASSIGN_OR_RETURN(options.precisions,
                           ParseWords("--precision", precisions, {"f32", "bf16"}));
  if (options.threads == 0 || options.turns == 0 || !(options.seconds > 0)) {
    return OptionProblem("--threads, --turns and --seconds take more than 0");
  }
  return options;
}

}  // namespace simurgh::bench
