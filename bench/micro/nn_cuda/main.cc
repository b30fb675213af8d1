// What a step of the dense network costs on a CUDA device, beside what the device does at best. See
// --help.

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "bench/micro/nn_cuda/copies.h"
#include "bench/micro/nn_cuda/layer_kernels.h"
#include "bench/micro/nn_cuda/layer_products.h"
#include "bench/micro/nn_cuda/options.h"
#include "bench/micro/nn_cuda/peer.h"
#include "bench/micro/nn_cuda/report.h"
#include "bench/micro/nn_cuda/steps.h"
#include "nn/cuda/cuda_network.h"

namespace simurgh::bench {
namespace {

constexpr int kSkipped = 77;

Status MeasureSubject(const NnCudaOptions& options, const Subject& subject,
                      ComputePrecision precision, NnCudaReport& report) {
  for (const uint32_t batch : options.batches) {
    if (options.layers) {
      for (const auto measure : {&MeasureProducts, &MeasureKernels}) {
        SIMURGH_ASSIGN_OR_RETURN(const std::vector<PartTime> times,
                                 measure(subject, batch, precision, options.repeats));
        for (const PartTime& time : times) report.Add(subject, batch, time);
      }
    }
    SIMURGH_ASSIGN_OR_RETURN(const StepTime step, MeasureSteps({.subject = &subject,
                                                                .batch = batch,
                                                                .precision = precision,
                                                                .graphs = !options.eager,
                                                                .repeats = options.repeats}));
    report.Add(subject, batch, step);
  }
  return absl::OkStatus();
}

Status MeasureAll(const NnCudaOptions& options, const std::string& device) {
  SIMURGH_ASSIGN_OR_RETURN(const CopyRates copies, MeasureCopies());
  NnCudaReport report(options.json, device, copies);
  for (const std::string& name : options.precisions) {
    const ComputePrecision precision = PrecisionOf(name);
    SIMURGH_ASSIGN_OR_RETURN(const double peak, MeasureMatrixPeak(precision));
    report.Begin(name, peak);
    for (const Subject& subject : Subjects()) {
      if (std::ranges::find(options.networks, subject.name) == options.networks.end()) continue;
      SIMURGH_RETURN_IF_ERROR(MeasureSubject(options, subject, precision, report));
    }
  }
  return options.peer ? RunPeer(options, report.steps()) : absl::OkStatus();
}

int Fail(const Status& status, int code) {
  std::fprintf(stderr, "bench_nn_cuda: %s\n", std::string(status.message()).c_str());
  return code;
}

int Run(int argc, char** argv) {
  const auto options = ParseNnCudaOptions(argc, argv, std::cout);
  if (!options.ok()) return Fail(options.status(), 2);
  if (!*options) return 0;
  const StatusOr<std::string> device = cuda::FindCudaDevice();
  if (!device.ok()) {
    std::printf("SKIPPED: %s\n", std::string(device.status().message()).c_str());
    return kSkipped;
  }
  const Status status = MeasureAll(**options, *device);
  return status.ok() ? 0 : Fail(status, 1);
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) { return simurgh::bench::Run(argc, argv); }
