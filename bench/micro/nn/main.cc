// What a step of the dense network costs, and how near its products come to oneDNN's. See --help.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>

#include "bench/micro/nn/layers.h"
#include "bench/micro/nn/options.h"
#include "bench/micro/nn/products.h"
#include "bench/micro/nn/step.h"
#include "nn/cpu/compute_threads.h"

namespace simurgh::bench {
namespace {

// Seconds of one call: the mean over at least so many seconds, after one that is not counted.
double Time(const std::function<void()>& work, double seconds) {
  using Clock = std::chrono::steady_clock;
  work();
  const auto start = Clock::now();
  size_t count = 0;
  std::chrono::duration<double> passed{};
  do {
    work();
    ++count;
    passed = Clock::now() - start;
  } while (passed.count() < seconds);
  return passed.count() / static_cast<double>(count);
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// What is measured together.
struct Point {
  std::string model;
  size_t batch;
  std::string precision;

  bool is_bf16() const { return precision == "bf16"; }
};

class Report {
 public:
  explicit Report(bool json) : json_(json) {
    if (json_) return;
    std::printf("%-6s %6s %-5s %-24s %10s %10s %10s %7s\n", "model", "batch", "prec", "part", "ms",
                "gflops", "oneDNN", "ratio");
  }

  // onednn: seconds; 0 where it has no such thing.
  void Add(const Point& point, const std::string& part, double seconds, double flop,
           double onednn) const {
    const double gflops = flop / seconds / 1e9;
    const double limit = onednn > 0 ? flop / onednn / 1e9 : 0;
    const double ratio = onednn > 0 ? onednn / seconds : 0;
    std::printf(
        json_ ? "{\"model\":\"%s\",\"batch\":%zu,\"precision\":\"%s\",\"part\":\"%s\",\"ms\":%.4f,"
                "\"gflops\":%.2f,\"onednn_gflops\":%.2f,\"ratio\":%.3f}\n"
              : "%-6s %6zu %-5s %-24s %10.3f %10.1f %10.1f %7.3f\n",
        point.model.c_str(), point.batch, point.precision.c_str(), part.c_str(), seconds * 1e3,
        gflops, limit, ratio);
    std::fflush(stdout);
  }

 private:
  const bool json_;
};

// Seconds of all products of a step: ours and oneDNN's.
struct Sums {
  double ours = 0;
  double onednn = 0;
  double flop = 0;
};

Sums MeasureProducts(const Point& point, const NnBenchOptions& options, const Report& report) {
  const auto precision =
      point.is_bf16() ? cpu::ProductPrecision::kBf16 : cpu::ProductPrecision::kF32;
  Sums sums;
  for (const Product& product : ProductsOf(SubjectOf(point.model), point.batch)) {
    const auto ours = OurProduct(product, precision);
    const auto onednn = OneDnnProduct(product, precision, options.threads);
    std::vector<double> our_times;
    std::vector<double> onednn_times;
    for (uint32_t turn = 0; turn < options.turns; ++turn) {
      our_times.push_back(Time(ours, options.seconds));
      onednn_times.push_back(Time(onednn, options.seconds));
    }
    const double our_time = Median(our_times);
    const double onednn_time = Median(onednn_times);
    report.Add(point, product.name(), our_time, product.flop(), onednn_time);
    sums.ours += our_time;
    sums.onednn += onednn_time;
    sums.flop += product.flop();
  }
  report.Add(point, "all products", sums.ours, sums.flop, sums.onednn);
  return sums;
}

void MeasureLayers(const Point& point, const NnBenchOptions& options, const Report& report) {
  cpu::SetProductPrecision(point.is_bf16() ? cpu::ProductPrecision::kBf16
                                           : cpu::ProductPrecision::kF32);
  for (const LayerWork& layer : LayersOf(SubjectOf(point.model), point.batch)) {
    std::vector<double> times;
    for (uint32_t turn = 0; turn < options.turns; ++turn) {
      times.push_back(Time(layer.work, options.seconds));
    }
    report.Add(point, layer.name, Median(times), layer.flop, 0);
  }
}

void MeasureStep(const Point& point, const Sums& products, const NnBenchOptions& options,
                 const Report& report) {
  const Subject& subject = SubjectOf(point.model);
  const auto activations = Activations(subject, point.batch);
  NetworkStep step(subject, point.batch,
                   point.is_bf16() ? ComputePrecision::kBf16 : ComputePrecision::kF32,
                   options.threads);
  std::vector<double> activation_times;
  std::vector<double> network_times;
  std::vector<double> step_times;
  for (uint32_t turn = 0; turn < options.turns; ++turn) {
    activation_times.push_back(Time(activations, options.seconds));
    network_times.push_back(Time([&] { step.ForwardBackward(); }, options.seconds));
    step_times.push_back(Time(
        [&] {
          step.ForwardBackward();
          step.ApplyGradients();
        },
        options.seconds));
  }
  const double network = Median(network_times);
  const double whole = Median(step_times);
  report.Add(point, "activations", Median(activation_times), 0, 0);
  report.Add(point, "other", std::max(network - products.ours, 1e-9), 0, 0);
  report.Add(point, "optimizer", std::max(whole - network, 1e-9), 0, 0);
  report.Add(point, "step", whole, products.flop, products.onednn);
}

void Run(const NnBenchOptions& options) {
  const Report report(options.json);
  cpu::SetComputeThreads(options.threads);
  for (const std::string& model : options.models) {
    for (const uint32_t batch : options.batches) {
      for (const std::string& precision : options.precisions) {
        const Point point{model, batch, precision};
        const Sums products = MeasureProducts(point, options, report);
        MeasureLayers(point, options, report);
        MeasureStep(point, products, options, report);
      }
    }
  }
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) {
  using namespace simurgh;
  const auto options = bench::ParseNnBenchOptions(argc, argv, std::cout);
  if (!options.ok()) {
    std::cerr << "bench_nn: " << options.status().message() << "\n";
    return 2;
  }
  if (options->has_value()) bench::Run(**options);
  return 0;
}
