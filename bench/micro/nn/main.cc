// Measures a step of the dense network and compares its products with oneDNN's. See --help.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/micro/nn/layers.h"
#include "bench/micro/nn/products.h"
#include "bench/micro/nn/step.h"
#include "bench/support/flags.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/matmul.h"

namespace simurgh::bench {
namespace {

constexpr char kAbout[] =
    R"(bench_nn: time of a training step of the dense network on CPU cores

Usage: bench_nn [options]

Each product of a linear layer has a line: forward, weight (gradient of the weights) and input
(gradient of the inputs). Its ratio is to oneDNN's own inner product of the same shape. Operands of
the latter are in oneDNN's preferred layout and precision before the clock starts. `all products`
is their sum.

Further lines: interactions, cross layers with their products, batch norms, and activations (relu
forward and backward). From whole steps: other (loss, copies and these layers) and the optimizer
(Adam). gflops counts two operations per multiplication and addition of the products.

Models: light is 256-128-64 and paper 4096-2048-1024-512-256, both over 429 inputs. dlrm is 26
embeddings of 128 with MLPerf's towers. dcn is three cross layers and 1024-512 with batch norm over
429 inputs. bf16 is slow on a CPU without bf16 instructions.

Exit codes: 0 done, 2 bad options.
)";

struct Options {
  std::vector<std::string> models;
  std::vector<uint32_t> batches;
  std::vector<std::string> precisions;
  uint32_t threads;
  double seconds;
  uint32_t turns;
  bool json;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("bench_nn", kAbout);
  flags.Words("model", options.models, {"light", "paper", "dlrm", "dcn"}, {"light,paper,dlrm"},
              "networks");
  flags.Numbers("batch", options.batches, 1, 65'536, {"512,4096"}, "samples per batch");
  flags.Words("precision", options.precisions, {"f32", "bf16"},
              {cpu::HasBf16Products() ? "f32,bf16" : "f32"}, "precisions of the products");
  flags.Number("threads", options.threads, 1, 1024,
               {std::to_string(std::max(1U, std::thread::hardware_concurrency()))},
               "threads that compute");
  flags.Number("seconds", options.seconds, 0.001, 3600, {"1"}, "minimum time of a measurement");
  flags.Number("turns", options.turns, 1, 1000, {"5"}, "repetitions of each measurement");
  flags.Parse(argc, argv);
  options.json = flags.json();
  return options;
}

// Mean seconds of a call, measured for at least `seconds` after one warm-up call.
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

// A measured combination of options.
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

  // onednn: seconds; 0 without a oneDNN counterpart.
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

Sums MeasureProducts(const Point& point, const Options& options, const Report& report) {
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

void MeasureLayers(const Point& point, const Options& options, const Report& report) {
  cpu::SetProductPrecision(point.is_bf16() ? cpu::ProductPrecision::kBf16
                                           : cpu::ProductPrecision::kF32);
  for (const LayerWork& layer : LayersOf(SubjectOf(point.model), point.batch)) {
    std::vector<double> times;
    times.reserve(options.turns);
    for (uint32_t turn = 0; turn < options.turns; ++turn) {
      times.push_back(Time(layer.work, options.seconds));
    }
    report.Add(point, layer.name, Median(times), layer.flop, 0);
  }
}

void MeasureStep(const Point& point, const Sums& products, const Options& options,
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

void Run(const Options& options) {
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
  using namespace simurgh::bench;
  Run(ParseOptions(argc, argv));
  return 0;
}
