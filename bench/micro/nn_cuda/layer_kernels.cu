#include "absl/strings/str_cat.h"
#include "bench/micro/nn_cuda/layer_kernels.h"
#include "bench/micro/nn_cuda/random_memory.h"
#include "bench/micro/nn_cuda/stopwatch.h"

#include "nn/cuda/float16.h"
#include "nn/cuda/interaction_kernels.h"
#include "nn/cuda/launch.cuh"
#include "nn/cuda/optimizer_kernels.h"
#include "nn/model_plan.h"

namespace simurgh::bench {
namespace {

using cuda::DeviceMemory;
using cuda::Matrix;

template <typename U>
U* As(const DeviceMemory& memory) {
  return reinterpret_cast<U*>(memory.get());
}

template <typename T>
class KernelTimes {
 public:
  explicit KernelTimes(size_t repeats) : repeats_(repeats) {}

  Status Start(ComputePrecision precision) {
    SIMURGH_ASSIGN_OR_RETURN(
        executor_, cuda::CudaExecutor::Create({.precision = precision, .time_compute = true}));
    return absl::OkStatus();
  }

  Status AddDot(const LayerPlan& layer, size_t batch) {
    const size_t width = layer.input_width;
    const size_t pairs = layer.output_width;
    const size_t dim = layer.config.width;
    SIMURGH_ASSIGN_OR_RETURN(const DeviceMemory input, RandomMemory<T>(batch * width));
    SIMURGH_ASSIGN_OR_RETURN(const DeviceMemory output, RandomMemory<T>(batch * pairs));
    SIMURGH_ASSIGN_OR_RETURN(const DeviceMemory gradient, RandomMemory<T>(batch * width));
    const Matrix<T> x{As<T>(input), batch, width, width};
    const Matrix<T> y{As<T>(output), batch, pairs, pairs};
    const Matrix<T> dx{As<T>(gradient), batch, width, width};
    const double flop = 2.0 * static_cast<double>(batch * pairs * dim);
    const double bytes = static_cast<double>(batch * (width + pairs) * sizeof(T));
    const std::string name = absl::StrCat("dot of ", width / dim);
    SIMURGH_RETURN_IF_ERROR(
        Add(PartTime{.layer = name, .part = "forward", .flop = flop, .bytes = bytes}, batch, pairs,
            cuda::DotCell<T>{x, dim, y}));
    return Add(PartTime{.layer = name,
                        .part = "back",
                        .flop = 2 * flop,
                        .bytes = bytes + static_cast<double>(batch * width * sizeof(T))},
               batch, width, cuda::DotBackwardCell<T>{x, dim, y, dx});
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
    const cuda::AdamStep step{
        {As<cuda::StepScalars>(scalars), 0.0F, As<float>(buffers[0]), As<float>(buffers[1])},
        {0.9F, 0.999F, 1e-8F, As<float>(buffers[2]), As<float>(buffers[3])}};
    // Reads four values of each weight and writes three.
    return Add(
        PartTime{.layer = "adam", .part = "step", .bytes = 28.0 * static_cast<double>(count)},
        count, step);
  }

  std::vector<PartTime> Take() { return std::move(times_); }

 private:
  // of: a count, or rows and columns; then the kernel.
  template <typename... Arguments>
  Status Add(PartTime time, const Arguments&... arguments) {
    std::vector<double> taken;
    for (size_t i = 0; i < repeats_ + kUncounted; ++i) {
      executor_->Mark(cuda::Moment::kBegin);
      if constexpr (sizeof...(Arguments) == 2) {
        executor_->ForEach(arguments...);
      } else {
        executor_->ForEachCell(arguments...);
      }
      executor_->Mark(cuda::Moment::kEnd);
      executor_->Mark(cuda::Moment::kApplyBegin);
      executor_->Mark(cuda::Moment::kApplyEnd);
      SIMURGH_ASSIGN_OR_RETURN(const double ms, executor_->ComputeMs());
      if (i >= kUncounted) taken.push_back(ms);
    }
    SIMURGH_RETURN_IF_ERROR(executor_->Synchronize());
    time.ms = Median(std::move(taken));
    times_.push_back(std::move(time));
    return absl::OkStatus();
  }

  static constexpr size_t kUncounted = 3;

  const size_t repeats_;
  std::unique_ptr<cuda::CudaExecutor> executor_;
  std::vector<PartTime> times_;
};

template <typename T>
StatusOr<std::vector<PartTime>> KernelsOf(const Subject& subject, size_t batch,
                                          ComputePrecision precision, size_t repeats) {
  SIMURGH_ASSIGN_OR_RETURN(const ModelPlan plan, PlanModel(subject.model, subject.inputs));
  KernelTimes<T> times(repeats);
  SIMURGH_RETURN_IF_ERROR(times.Start(precision));
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (layer.config.kind != LayerConfig::Kind::kDot) continue;
      SIMURGH_RETURN_IF_ERROR(times.AddDot(layer, batch));
    }
  }
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
