#include "bench/micro/nn_cuda/report.h"

#include <cstdio>
#include <utility>

namespace simurgh::bench {

struct NnCudaReport::Line {
  std::string part;
  double ms = 0;          // As a caller sees it.
  double compute_ms = 0;  // On the device, copies from and to the host left out.
  double tflops = 0;
  double gb_per_s = 0;  // 0: not counted.
};

NnCudaReport::NnCudaReport(bool json, std::string device, const CopyRates& copies)
    : json_(json), device_(std::move(device)), copies_(copies) {
  if (json_) {
    std::printf(
        "{\"part\":\"copies\",\"device\":\"%s\",\"gb_per_s\":%.1f,\"to_device_gb_per_s\":%.1f,"
        "\"to_host_gb_per_s\":%.1f}\n",
        device_.c_str(), copies.on_device, copies.to_device, copies.to_host);
    return;
  }
  std::printf("on %s; copies: %.0f GB/s on the device, %.1f to it, %.1f from it\n", device_.c_str(),
              copies.on_device, copies.to_device, copies.to_host);
}

void NnCudaReport::Begin(const std::string& precision, double peak) {
  precision_ = precision;
  peak_ = peak;
  if (json_) {
    std::printf("{\"part\":\"peak\",\"precision\":\"%s\",\"tflops\":%.2f}\n", precision.c_str(),
                peak);
    return;
  }
  std::printf("\n%s: %.1f TFLOP/s at best\n", precision.c_str(), peak);
  std::printf("%-6s %6s %-5s %-20s %9s %10s %8s %6s %8s %6s\n", "model", "batch", "prec", "part",
              "ms", "compute_ms", "TFLOP/s", "%peak", "GB/s", "%copy");
}

void NnCudaReport::Print(const Subject& subject, size_t batch, const Line& line) const {
  const double peak_share = 100 * line.tflops / peak_;
  const double copy_share = 100 * line.gb_per_s / copies_.on_device;
  std::printf(
      json_ ? "{\"model\":\"%s\",\"batch\":%zu,\"precision\":\"%s\",\"part\":\"%s\",\"ms\":%.4f,"
              "\"compute_ms\":%.4f,\"tflops\":%.2f,\"peak_percent\":%.1f,\"gb_per_s\":%.1f,"
              "\"copy_percent\":%.1f}\n"
            : "%-6s %6zu %-5s %-20s %9.3f %10.3f %8.1f %6.1f %8.1f %6.1f\n",
      subject.name.c_str(), batch, precision_.c_str(), line.part.c_str(), line.ms, line.compute_ms,
      line.tflops, peak_share, line.gb_per_s, copy_share);
  std::fflush(stdout);
}

void NnCudaReport::Add(const Subject& subject, size_t batch, const ProductTime& time) const {
  Print(subject, batch,
        {.part = time.layer + " " + time.part + (time.fused ? "" : "*"),
         .ms = time.ms,
         .compute_ms = time.ms,
         .tflops = time.tflops,
         .gb_per_s = time.gb_per_s});
}

void NnCudaReport::Add(const Subject& subject, size_t batch, const StepTime& time) const {
  const double flop = FlopPerSample(subject) * static_cast<double>(batch);
  // What the caller's time is more than the computation's goes with these bytes.
  const double bytes =
      4.0 * static_cast<double>(batch) *
      static_cast<double>(subject.inputs.dense_width + 2 + 2 * subject.inputs.embedding_width);
  Print(subject, batch,
        {.part = "step",
         .ms = time.ms,
         .compute_ms = time.compute_ms,
         .tflops = flop / time.compute_ms / 1e9,
         .gb_per_s = bytes / time.ms / 1e6});
}

}  // namespace simurgh::bench
