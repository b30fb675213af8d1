#include "bench/micro/nn_cuda/layer_kernels.h"

#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"

#include "bench/micro/nn_cuda/random_memory.h"
#include "bench/micro/nn_cuda/stopwatch.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/layers.h"
#include "nn/cuda/optimizer_kernels.h"
#include "nn/model_plan.h"

namespace simurgh::bench {
namespace {

using cuda::DeviceMemory;

template <typename U>
U* As(const DeviceMemory& memory) {
  return reinterpret_cast<U*>(memory.get());
}

template <typename T>
class KernelTimes {
 public:
  explicit KernelTimes(size_t repeats) : repeats_(repeats) {}

  Status Start(ComputePrecision precision) {
    SIMURGH_ASSIGN_OR_RETURN(executor_, cuda::CudaExecutor::Create({.precision = precision}));
    return watch_.emplace(executor_->stream()).Start();
  }

  Status AddAdam(size_t count) {
    std::vector<DeviceMemory> buffers;
    for (int i = 0; i < 4; ++i) {
      SIMURGH_ASSIGN_OR_RETURN(DeviceMemory buffer, RandomMemory<float>(count));
      buffers.push_back(std::move(buffer));
    }
    const DeviceMemory scalars = AllocateOnDevice(sizeof(cuda::StepScalars));
    const cuda::StepScalars host;
    if (scalars == nullptr) return absl::ResourceExhaustedError("no memory on the device");
    SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(
        cudaMemcpy(scalars.get(), &host, sizeof(host), cudaMemcpyHostToDevice), "copy"));
    // The second moments are squares.
    SIMURGH_RETURN_IF_ERROR(
        cuda::CudaStatus(cudaMemset(buffers[3].get(), 0, count * sizeof(float)), "memset"));
    const cuda::IfCounted step{
        As<cuda::StepScalars>(scalars),
        cuda::AdamStep<T>{
            {As<cuda::StepScalars>(scalars), 0.0F, As<float>(buffers[0]), As<float>(buffers[1])},
            {0.9F, 0.999F, 1e-8F, As<float>(buffers[2]), As<float>(buffers[3])}}};
    // Reads four values per weight and writes three.
    return Add(
        PartTime{.layer = "adam", .part = "step", .bytes = 28.0 * static_cast<double>(count)},
        [&] { executor_->ForEachCell(1, count, step); });
  }

  // Layers other than linear ones and activations, as the network computes them.
  Status AddLayers(const ModelPlan& plan, size_t batch) {
    const cuda::WireCodes codes(plan, {});
    cuda::Tensors<T> tensors(plan, codes, {});
    SIMURGH_ASSIGN_OR_RETURN(const DeviceMemory weights,
                             RandomMemory<float>(tensors.weight_bytes() / sizeof(float)));
    tensors.SetWeights(weights.get());
    tensors.LayOut(batch);
    SIMURGH_ASSIGN_OR_RETURN(const DeviceMemory block,
                             RandomMemory<T>(tensors.batch_plan().planner.bytes() / sizeof(T)));
    tensors.SetBatch(block.get());
    tensors.SetRows(batch, cuda::PlanTransfer(plan, codes, batch), 0);
    cuda::Layers<cuda::CudaExecutor, T> layers(plan, /*seed=*/1, *executor_, tensors);
    layers.TakeWeights(tensors.parameters());
    const cuda::RankPass ranks{.samples = batch};
    for (size_t t = 0; t < plan.towers.size(); ++t) {
      for (size_t i = 0; i < plan.towers[t].layers.size(); ++i) {
        const std::optional<LayerCost> cost = CostOf(plan.towers[t].layers[i]);
        if (!cost) continue;
        const auto rows = static_cast<double>(batch);
        SIMURGH_RETURN_IF_ERROR(Add(PartTime{.layer = cost->name,
                                             .part = "forward",
                                             .flop = rows * cost->flop,
                                             .bytes = rows * cost->values * sizeof(T)},
                                    [&] { layers.Forward(t, i, &ranks); }));
        SIMURGH_RETURN_IF_ERROR(Add(PartTime{.layer = cost->name,
                                             .part = "back",
                                             .flop = rows * 2 * cost->flop,
                                             .bytes = rows * cost->values_back * sizeof(T)},
                                    [&] { layers.Backward(t, i, ranks); }));
      }
    }
    return absl::OkStatus();
  }

  std::vector<PartTime> Take() { return std::move(times_); }

 private:
  // Per sample: forward operations, and values of operands and results, each once.
  struct LayerCost {
    std::string name;
    double flop = 0;
    double values = 0;
    double values_back = 0;
  };

  static std::optional<LayerCost> CostOf(const LayerPlan& layer) {
    using Kind = LayerConfig::Kind;
    const auto inputs = static_cast<double>(layer.input_width);
    const auto outputs = static_cast<double>(layer.output_width);
    const size_t dim = layer.config.width;
    switch (layer.config.kind) {
      case Kind::kDot:
        return LayerCost{absl::StrCat("dot of ", layer.input_width / dim),
                         2 * outputs * static_cast<double>(dim), inputs + outputs,
                         2 * inputs + outputs};
      case Kind::kFm:
        return LayerCost{absl::StrCat("fm of ", layer.input_width / dim), 0, inputs, 2 * inputs};
      case Kind::kCross: {
        const uint32_t rank = layer.config.rank;
        const double product = 2 * (rank == 0 ? inputs * inputs : 2 * inputs * rank);
        // With the tower's input, and its gradient, which is read and written.
        return LayerCost{absl::StrCat("cross ", layer.input_width), product, 3 * inputs,
                         6 * inputs};
      }
      case Kind::kBatchNorm:
        return LayerCost{absl::StrCat("batch norm ", layer.input_width), 0, 2 * inputs, 3 * inputs};
      default:
        return std::nullopt;
    }
  }

  Status Add(PartTime time, const std::function<void()>& enqueue) {
    SIMURGH_ASSIGN_OR_RETURN(time.ms, watch_->Time(repeats_, [&] {
      enqueue();
      return absl::OkStatus();
    }));
    SIMURGH_RETURN_IF_ERROR(executor_->Synchronize());
    times_.push_back(std::move(time));
    return absl::OkStatus();
  }

  const size_t repeats_;
  std::unique_ptr<cuda::CudaExecutor> executor_;
  std::optional<Stopwatch> watch_;
  std::vector<PartTime> times_;
};

template <typename T>
StatusOr<std::vector<PartTime>> KernelsOf(const Subject& subject, size_t batch,
                                          ComputePrecision precision, size_t repeats) {
  const ModelPlan plan = PlanOf(subject);
  KernelTimes<T> times(repeats);
  SIMURGH_RETURN_IF_ERROR(times.Start(precision));
  SIMURGH_RETURN_IF_ERROR(times.AddLayers(plan, batch));
  SIMURGH_RETURN_IF_ERROR(times.AddAdam(plan.parameter_count));
  return times.Take();
}

}  // namespace

StatusOr<std::vector<PartTime>> MeasureKernels(const Subject& subject, size_t batch,
                                               ComputePrecision precision, size_t repeats) {
  switch (precision) {
    case ComputePrecision::kBf16:
      return KernelsOf<cuda::Bfloat16>(subject, batch, precision, repeats);
    case ComputePrecision::kF16:
      return KernelsOf<cuda::Float16>(subject, batch, precision, repeats);
    case ComputePrecision::kF32:
    case ComputePrecision::kTf32:
      break;
  }
  return KernelsOf<float>(subject, batch, precision, repeats);
}

}  // namespace simurgh::bench
