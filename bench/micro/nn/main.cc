// What a step of the dense network costs, and how near its products come to oneDNN's. See --help.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>

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

class Report {
 public:
  explicit Report(bool json) : json_(json) {
    if (json_) return;
    std::printf("%-6s %6s %-20s %10s %10s %10s %7s\n", "model", "batch", "part", "ms", "gflops",
                "oneDNN", "ratio");
  }

  // onednn: seconds; 0 where it has no such thing.
  void Add(const std::string& model, size_t batch, const std::string& part, double seconds,
           double flop, double onednn) const {
    const double gflops = flop / seconds / 1e9;
    const double limit = onednn > 0 ? flop / onednn / 1e9 : 0;
    const double ratio = onednn > 0 ? onednn / seconds : 0;
    std::printf(json_ ? "{\"model\":\"%s\",\"batch\":%zu,\"part\":\"%s\",\"ms\":%.4f,"
                        "\"gflops\":%.2f,\"onednn_gflops\":%.2f,\"ratio\":%.3f}\n"
                      : "%-6s %6zu %-20s %10.3f %10.1f %10.1f %7.3f\n",
                model.c_str(), batch, part.c_str(), seconds * 1e3, gflops, limit, ratio);
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

Sums MeasureProducts(const std::string& model, size_t batch, const NnBenchOptions& options,
                     const Report& report) {
  Sums sums;
  for (const Product& product : ProductsOf(LayerWidths(model), batch)) {
    const auto ours = OurProduct(product);
    const auto onednn = OneDnnProduct(product, options.threads);
    std::vector<double> our_times;
    std::vector<double> onednn_times;
    for (uint32_t turn = 0; turn < options.turns; ++turn) {
      our_times.push_back(Time(ours, options.seconds));
      onednn_times.push_back(Time(onednn, options.seconds));
    }
    const double our_time = Median(our_times);
    const double onednn_time = Median(onednn_times);
    report.Add(model, batch, product.name(), our_time, product.flop(), onednn_time);
    sums.ours += our_time;
    sums.onednn += onednn_time;
    sums.flop += product.flop();
  }
  report.Add(model, batch, "all products", sums.ours, sums.flop, sums.onednn);
  return sums;
}

void MeasureStep(const std::string& model, size_t batch, const Sums& products,
                 const NnBenchOptions& options, const Report& report) {
  NetworkStep step(LayerWidths(model), batch, options.threads);
  std::vector<double> network_times;
  std::vector<double> step_times;
  for (uint32_t turn = 0; turn < options.turns; ++turn) {
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
  report.Add(model, batch, "other", std::max(network - products.ours, 1e-9), 0, 0);
  report.Add(model, batch, "optimizer", std::max(whole - network, 1e-9), 0, 0);
  report.Add(model, batch, "step", whole, products.flop, products.onednn);
}

void Run(const NnBenchOptions& options) {
  const Report report(options.json);
  cpu::SetComputeThreads(options.threads);
  for (const std::string& model : options.models) {
    for (const uint32_t batch : options.batches) {
      MeasureStep(model, batch, MeasureProducts(model, batch, options, report), options, report);
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
