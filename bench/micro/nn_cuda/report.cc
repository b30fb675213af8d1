#include "bench/micro/nn_cuda/report.h"

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace simurgh::bench {

struct NnCudaReport::Line {
  std::string part;
  double ms = 0;
  double compute_ms = 0;  // Without copies from and to the host.
  double flop = 0;
  double bytes = 0;
  double bytes_ms = 0;  // Time to move them; 0: compute_ms.
  bool fused = true;

  double Tflops() const { return flop / compute_ms / 1e9; }
  double GbPerS() const { return bytes / (bytes_ms > 0 ? bytes_ms : compute_ms) / 1e6; }
};

NnCudaReport::NnCudaReport(bool json, const CopyRates& copies) : json_(json), copies_(copies) {
  std::printf(json_ ? "{\"part\":\"copies\",\"gb_per_s\":%.1f,\"to_device_gb_per_s\":%.1f,"
                      "\"to_host_gb_per_s\":%.1f}\n"
                    : "copies: %.0f GB/s on the device, %.1f to it, %.1f from it\n",
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
  std::printf("%-6s %6s %-5s %-24s %9s %10s %8s %6s %9s %8s %6s\n", "model", "batch", "prec",
              "part", "ms", "compute_ms", "TFLOP/s", "%peak", "MB", "GB/s", "%copy");
}

void NnCudaReport::Print(const Subject& subject, size_t batch, const Line& line) const {
  const double peak_percent = 100 * line.Tflops() / peak_;
  const double copy_percent = 100 * line.GbPerS() / copies_.on_device;
  if (json_) {
    std::printf(
        "{\"model\":\"%s\",\"batch\":%zu,\"precision\":\"%s\",\"part\":\"%s\",\"ms\":%.4f,"
        "\"compute_ms\":%.4f,\"tflops\":%.2f,\"peak_percent\":%.1f,\"mb\":%.3f,"
        "\"gb_per_s\":%.1f,\"copy_percent\":%.1f,\"fused\":%s}\n",
        subject.name.c_str(), batch, precision_.c_str(), line.part.c_str(), line.ms,
        line.compute_ms, line.Tflops(), peak_percent, line.bytes / 1e6, line.GbPerS(), copy_percent,
        line.fused ? "true" : "false");
  } else {
    std::printf("%-6s %6zu %-5s %-24s %9.3f %10.3f %8.1f %6.1f %9.1f %8.1f %6.1f\n",
                subject.name.c_str(), batch, precision_.c_str(),
                absl::StrCat(line.part, line.fused ? "" : "*").c_str(), line.ms, line.compute_ms,
                line.Tflops(), peak_percent, line.bytes / 1e6, line.GbPerS(), copy_percent);
  }
  std::fflush(stdout);
}

void NnCudaReport::Add(const Subject& subject, size_t batch, const PartTime& time) {
  Print(subject, batch,
        {.part = time.layer + " " + time.part,
         .ms = time.ms,
         .compute_ms = time.ms,
         .flop = time.flop,
         .bytes = time.bytes,
         .fused = time.fused});
}

void NnCudaReport::Add(const Subject& subject, size_t batch, const StepTime& time) {
  const double copied =
      4.0 * static_cast<double>(batch) *
      static_cast<double>(subject.inputs.dense_width + 2 + 2 * subject.inputs.embedding_width);
  Print(subject, batch,
        {.part = "step",
         .ms = time.ms,
         .compute_ms = time.compute_ms,
         .flop = FlopPerSample(subject) * static_cast<double>(batch),
         .bytes = copied,
         .bytes_ms = time.ms});
}

}  // namespace simurgh::bench
