#include "bench/micro/nn_cuda/options.h"

#include <ostream>

#include <boost/program_options/value_semantic.hpp>

#include "services/runtime/command_line.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "bench_nn_cuda: what a step of the dense network costs on a CUDA device\n\n"
    "Usage: bench_nn_cuda [options]\n\n";

constexpr char kNotes[] =
    "First what the device does at best: a product of 8192 x 8192 random values in each "
    "precision,\n"
    "and copies of a gigabyte. Then a line for each product of each linear layer: forward (with\n"
    "bias and relu), input (the gradient of the inputs) and weight (of the weights, with the\n"
    "bias's); and for whole steps (Adam, random data): ms from one to the next where each batch\n"
    "comes and leaves while others are computed, and compute_ms of the device alone: where copies\n"
    "hide behind it, both are the same. tflops counts 2 operations for each\n"
    "multiplication and addition of the products, MB the bytes of operands and results (of a\n"
    "step, those of its copies), each once; %peak and %copy are shares of the best. A star:\n"
    "cuBLASLt has the product, but not what should be fused to it.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad options, 77 no device (after a line with SKIPPED).\n";

constexpr uint32_t kMaxSamples = 65'536;

}  // namespace

ComputePrecision PrecisionOf(const std::string& name) {
  if (name == "tf32") return ComputePrecision::kTf32;
  if (name == "f16") return ComputePrecision::kF16;
  return name == "bf16" ? ComputePrecision::kBf16 : ComputePrecision::kF32;
}

StatusOr<std::optional<NnCudaOptions>> ParseNnCudaOptions(int argc, char** argv,
                                                          std::ostream& out) {
  NnCudaOptions options;
  std::string networks;
  std::string batches;
  std::string precisions;
  bool steps_only = false;
  po::options_description description("Options");
  const auto list = [](std::string& value, const char* standard) {
    return po::value(&value)->value_name("LIST")->default_value(standard);
  };
  description.add_options()(
      "network", list(networks, "paper,dlrm,dcn"),
      "paper: 429 inputs, 4096-2048-1024-512-256-1; dlrm: 26 embeddings of 128, MLPerf's towers; "
      "dcn: 429 inputs, three cross layers beside 1024-512 with batch norm")(
      "batch", list(batches, "512,2048,8192,16384,65536"), "samples of a batch")(
      "precision", list(precisions, "f32,tf32,bf16"), "of products, and of activations; f16, too")(
      "repeats", po::value(&options.repeats)->value_name("N")->default_value(50),
      "of a measurement, of which the median counts")("eager", po::bool_switch(&options.eager),
                                                      "no CUDA graphs")(
      "steps-only", po::bool_switch(&steps_only), "whole steps, not the layers' products")(
      "peer", po::bool_switch(&options.peer),
      "then the same steps in PyTorch: eager, compiled, CUDA graphs, both; and the ratio to its "
      "best")("json", po::bool_switch(&options.json), "one object a line instead of a table")(
      "help", "prints this and exits")("version", "prints the version and exits");
  SIMURGH_ASSIGN_OR_RETURN(
      const bool go_on,
      ParseCommandLine(argc, argv, {"bench_nn_cuda", kUsage, kNotes}, description, out));
  if (!go_on) return std::nullopt;
  SIMURGH_ASSIGN_OR_RETURN(options.networks,
                           ParseWords("--network", networks, {"paper", "dlrm", "dcn"}));
  SIMURGH_ASSIGN_OR_RETURN(options.batches, ParseNumbers("--batch", batches, kMaxSamples));
  SIMURGH_ASSIGN_OR_RETURN(options.precisions,
                           ParseWords("--precision", precisions, {"f32", "tf32", "bf16", "f16"}));
  if (options.repeats == 0) return OptionProblem("--repeats takes more than 0");
  options.layers = !steps_only;
  return options;
}

}  // namespace simurgh::bench
