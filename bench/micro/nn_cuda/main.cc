// Measures a step of the dense network on a CUDA device and the device's peaks. See --help.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "base/system_library.h"
#include "bench/micro/nn_cuda/choose_products.h"
#include "bench/micro/nn_cuda/copies.h"
#include "bench/micro/nn_cuda/layer_kernels.h"
#include "bench/micro/nn_cuda/layer_products.h"
#include "bench/micro/nn_cuda/options.h"
#include "bench/micro/nn_cuda/report.h"
#include "bench/micro/nn_cuda/steps.h"
#include "bench/support/flags.h"
#include "config/service_config.h"
#include "nn/cuda/cuda_network.h"
#include "nn/cuda/gemm_library.h"

namespace simurgh::bench {
namespace {

constexpr int kSkipped = 77;

constexpr char kAbout[] =
    R"(bench_nn_cuda: time of a training step of the dense network on a CUDA device

Usage: bench_nn_cuda [options]

The first lines are versions of libraries (0: not found) and the device's peaks: a product of
8192 x 8192 random values in each precision, and copies of a gigabyte. Then each product of a linear
layer has a line: forward (with bias and relu), input (gradient of the inputs) and weight (gradient
of the weights, with the bias's). Its operands may remain in the device's cache.

Whole steps use Adam and random data. ms is the time of a step while batches are copied in the
background. compute_ms leaves out copies of embeddings and their gradients. Equal values mean hidden
copies. tflops counts two operations per multiplication and addition of the products. MB is the
bytes of operands and results, each once (for a step: of its copies). %peak and %copy are shares of
the peaks. A star marks a product that cuBLASLt does not fuse with its epilogue.

Each time is that of many repetitions in a row over their number: the median of five rows.

Networks: light is 429 inputs and 256-128-64-1. paper is 429 inputs and 4096-2048-1024-512-256-1.
dlrm is 26 embeddings of 128 with MLPerf's towers. dcn is 429 inputs, three cross layers and
1024-512 with batch norm.

Exit codes: 0 done, 1 failed, 2 bad options, 77 no device (after a line with SKIPPED).
)";

NnCudaOptions ParseOptions(int argc, char** argv) {
  NnCudaOptions options;
  Flags flags("bench_nn_cuda", kAbout);
  flags.Words("network", options.networks, {"light", "paper", "dlrm", "dcn"},
              {"light,paper,dlrm,dcn"}, "networks");
  flags.Numbers("batch", options.batches, 1, 65'536, {"512,4096,16384,65536"}, "samples per batch");
  flags.Words("precision", options.precisions, {"f32", "tf32", "bf16", "f16"}, {"f32,tf32,bf16"},
              "precisions of products and activations");
  flags.Number("repeats", options.repeats, 1, 1'000'000, {"50"}, "repetitions in a row");
  flags.Switch("eager", options.eager, "use no CUDA graphs");
  flags.Switch("steps-only", options.steps_only, "skip the products of each layer");
  flags.Switch("choose", options.choose,
               "only measure all ways to compute each product and print the table of choices");
  flags.Parse(argc, argv);
  options.json = flags.json();
  return options;
}

ComputePrecision PrecisionOf(const std::string& name) {
  if (name == "tf32") return ComputePrecision::kTf32;
  if (name == "f16") return ComputePrecision::kF16;
  return name == "bf16" ? ComputePrecision::kBf16 : ComputePrecision::kF32;
}

Status MeasurePoint(const NnCudaOptions& options, const StepPoint& point, NnCudaReport& report) {
  SIMURGH_ASSIGN_OR_RETURN(const StepTime step, MeasureSteps(point));
  report.Add(*point.subject, point.batch, step);
  if (options.steps_only) return absl::OkStatus();
  for (const auto measure : {&MeasureProducts, &MeasureKernels}) {
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<PartTime> times,
                             measure(*point.subject, point.batch, point.precision, point.repeats));
    for (const PartTime& time : times) report.Add(*point.subject, point.batch, time);
  }
  return absl::OkStatus();
}

// Errors: the first point's; all are logged, and the others are measured.
Status MeasureSubject(const NnCudaOptions& options, const Subject& subject,
                      ComputePrecision precision, NnCudaReport& report) {
  Status result = absl::OkStatus();
  for (const uint32_t batch : options.batches) {
    const Status measured = MeasurePoint(options,
                                         {.subject = &subject,
                                          .batch = batch,
                                          .precision = precision,
                                          .graphs = !options.eager,
                                          .repeats = options.repeats},
                                         report);
    if (measured.ok()) continue;
    std::fprintf(stderr, "bench_nn_cuda: %s, batch %u: %s\n", subject.name.c_str(), batch,
                 std::string(measured.message()).c_str());
    result.Update(measured);
  }
  return result;
}

// 0 for a library that cannot be loaded.
void PrintVersions(bool json, const std::string& device) {
  int driver = 0;
  int runtime = 0;
  int nccl = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const auto cublaslt = cuda::CublasLt::Load();
  const Status without_nccl = LoadLibrary("NCCL", "libnccl.so.2", [&](void* library) {
    int (*version)(int*) = nullptr;
    return FindFunction(library, "ncclGetVersion", &version) && version(&nccl) == 0;
  });
  std::printf(json ? "{\"part\":\"versions\",\"device\":\"%s\",\"driver\":%d,\"runtime\":%d,"
                     "\"cublaslt\":%zu,\"nccl\":%d}\n"
                   : "on %s: driver %d, runtime %d, cuBLASLt %zu, NCCL %d\n",
              device.c_str(), driver, runtime, cublaslt.ok() ? (*cublaslt)->version() : 0, nccl);
  std::fflush(stdout);
  if (!without_nccl.ok()) {
    std::fprintf(stderr, "%s\n", std::string(without_nccl.message()).c_str());
  }
}

Status MeasureAll(const NnCudaOptions& options, const std::string& device) {
  PrintVersions(options.json, device);
  SIMURGH_ASSIGN_OR_RETURN(const CopyRates copies, MeasureCopies());
  NnCudaReport report(options.json, copies);
  Status result = absl::OkStatus();
  for (const std::string& name : options.precisions) {
    const ComputePrecision precision = PrecisionOf(name);
    SIMURGH_ASSIGN_OR_RETURN(const double peak, MeasureMatrixPeak(precision));
    report.Begin(name, peak);
    for (const Subject& subject : Subjects()) {
      if (std::ranges::find(options.networks, subject.name) == options.networks.end()) continue;
      result.Update(MeasureSubject(options, subject, precision, report));
    }
  }
  return result;
}

int Run(int argc, char** argv) {
  const NnCudaOptions options = ParseOptions(argc, argv);
  const StatusOr<std::string> device = cuda::FindCudaDevice();
  if (!device.ok()) {
    std::printf("SKIPPED: %s\n", std::string(device.status().message()).c_str());
    return kSkipped;
  }
  const Status status =
      options.choose ? ChooseProducts(options, *device) : MeasureAll(options, *device);
  if (status.ok()) return 0;
  std::fprintf(stderr, "bench_nn_cuda: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) { return simurgh::bench::Run(argc, argv); }
