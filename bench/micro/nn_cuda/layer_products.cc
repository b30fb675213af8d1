#include "bench/micro/nn_cuda/layer_products.h"

#include "absl/strings/str_cat.h"

#include "bench/micro/nn_cuda/random_memory.h"
#include "bench/micro/nn_cuda/stopwatch.h"
#include "nn/cuda/gemm_library.h"
#include "nn/cuda/memory_plan.h"
#include "nn/model_plan.h"

namespace simurgh::bench {
namespace {

using cuda::DeviceMemory;
using cuda::Epilogue;
using cuda::Gemm;
using cuda::GemmLibrary;
using cuda::Matrix;

// Matrices of a layer's products, aligned as in a network.
template <typename T>
class LayerProducts {
 public:
  LayerProducts(size_t batch, size_t inputs, size_t outputs)
      : batch_(batch), inputs_(inputs), outputs_(outputs) {}

  Status Allocate() {
    SIMURGH_ASSIGN_OR_RETURN(input_, RandomMemory<T>(batch_ * Stride(inputs_)));
    SIMURGH_ASSIGN_OR_RETURN(output_, RandomMemory<T>(batch_ * Stride(outputs_)));
    SIMURGH_ASSIGN_OR_RETURN(weight_, RandomMemory<T>(Stride(inputs_) * Stride(outputs_)));
    SIMURGH_ASSIGN_OR_RETURN(bias_, RandomMemory<T>(outputs_));
    SIMURGH_ASSIGN_OR_RETURN(gradient_, RandomMemory<float>((inputs_ + 1) * outputs_));
    SIMURGH_ASSIGN_OR_RETURN(mask_bits_, RandomMemory<float>(batch_ * (outputs_ / 32 + 4)));
    mask_.bits = mask_bits_.get();
    mask_.row_bits = (outputs_ + cuda::kMaskRowBits - 1) / cuda::kMaskRowBits * cuda::kMaskRowBits;
    return absl::OkStatus();
  }

  // y = relu(x W + b), with its mask.
  Gemm<T, T> Forward() {
    return {.a = Matrix<const T>(View(input_, batch_, inputs_)),
            .b = Matrix<const T>(View(weight_, inputs_, outputs_)),
            .depth = inputs_,
            .d = View(output_, batch_, outputs_),
            .epilogue = Epilogue::kBiasReluMask,
            .bias = reinterpret_cast<const T*>(bias_.get()),
            .mask = &mask_};
  }
  // dx = dy W^T
  Gemm<T, T> Input() {
    return {.a = Matrix<const T>(View(output_, batch_, outputs_)),
            .b = Matrix<const T>(View(weight_, inputs_, outputs_)),
            .b_transposed = true,
            .depth = outputs_,
            .d = View(input_, batch_, inputs_)};
  }
  // dW = x^T dy, db
  Gemm<T, float> Weight() {
    auto* gradient = reinterpret_cast<float*>(gradient_.get());
    return {.a = Matrix<const T>(View(input_, batch_, inputs_)),
            .a_transposed = true,
            .b = Matrix<const T>(View(output_, batch_, outputs_)),
            .depth = batch_,
            .d = {gradient, inputs_, outputs_, outputs_},
            .epilogue = Epilogue::kBiasGradient,
            .bias_gradient = gradient + inputs_ * outputs_};
  }

 private:
  static size_t Stride(size_t columns) {
    constexpr size_t kWhole = cuda::kRowAlignment / sizeof(T);
    return (columns + kWhole - 1) / kWhole * kWhole;
  }
  static Matrix<T> View(const DeviceMemory& memory, size_t rows, size_t columns) {
    return {reinterpret_cast<T*>(memory.get()), rows, columns, Stride(columns)};
  }

  const size_t batch_;
  const size_t inputs_;
  const size_t outputs_;
  DeviceMemory input_ = cuda::NoMemory();
  DeviceMemory output_ = cuda::NoMemory();
  DeviceMemory weight_ = cuda::NoMemory();
  DeviceMemory bias_ = cuda::NoMemory();
  DeviceMemory gradient_ = cuda::NoMemory();
  DeviceMemory mask_bits_ = cuda::NoMemory();
  cuda::ReluMask mask_;
};

StatusOr<std::unique_ptr<GemmLibrary>> NewLibrary(ComputePrecision precision) {
  SIMURGH_ASSIGN_OR_RETURN(const cuda::CublasLt* const lt, cuda::CublasLt::Load());
  SIMURGH_ASSIGN_OR_RETURN(const std::string device, cuda::CudaExecutor::FindDevice(0));
  return GemmLibrary::Create(
      *lt, {.precision = precision,
            .choose = [table = cuda::ProductChoices::Shipped(device, lt->version())](
                          const cuda::ProductKind& kind) { return table.Find(kind); },
            .allocate = AllocateOnDevice});
}

template <typename T, typename Out>
StatusOr<PartTime> TimeProduct(Stopwatch& watch, GemmLibrary& library, size_t repeats,
                               const Gemm<T, Out>& gemm, const char* part) {
  PartTime result{.layer = {}, .part = part};
  const auto enqueue = [&]() -> Status {
    SIMURGH_ASSIGN_OR_RETURN(const GemmLibrary::Outcome outcome,
                             library.Multiply(gemm, watch.stream()));
    result.fused = outcome == GemmLibrary::Outcome::kFused;
    return outcome == GemmLibrary::Outcome::kNotTaken
               ? absl::NotFoundError("cuBLASLt has no algorithm for a product")
               : absl::OkStatus();
  };
  SIMURGH_ASSIGN_OR_RETURN(result.ms, watch.Time(repeats, enqueue));
  result.flop = 2.0 * static_cast<double>(gemm.d.rows) * static_cast<double>(gemm.d.columns) *
                static_cast<double>(gemm.depth);
  result.bytes = static_cast<double>((gemm.a.rows * gemm.a.columns + gemm.b.rows * gemm.b.columns) *
                                         sizeof(T) +
                                     gemm.d.rows * gemm.d.columns * sizeof(Out));
  return result;
}

template <typename T>
StatusOr<std::vector<PartTime>> ProductsOf(const Subject& subject, size_t batch,
                                           ComputePrecision precision, size_t repeats) {
  Stopwatch watch;
  SIMURGH_RETURN_IF_ERROR(watch.Start());
  SIMURGH_ASSIGN_OR_RETURN(const auto library, NewLibrary(precision));
  SIMURGH_ASSIGN_OR_RETURN(const ModelPlan plan, PlanModel(subject.model, subject.inputs));
  std::vector<PartTime> times;
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (layer.config.kind != LayerConfig::Kind::kLinear || layer.output_width == 1) continue;
      LayerProducts<T> products(batch, layer.input_width, layer.output_width);
      SIMURGH_RETURN_IF_ERROR(products.Allocate());
      const size_t first = times.size();
      const auto add = [&](const auto& gemm, const char* part) -> Status {
        SIMURGH_ASSIGN_OR_RETURN(PartTime time, TimeProduct(watch, *library, repeats, gemm, part));
        times.push_back(std::move(time));
        return absl::OkStatus();
      };
      SIMURGH_RETURN_IF_ERROR(add(products.Forward(), "forward"));
      SIMURGH_RETURN_IF_ERROR(add(products.Input(), "input"));
      SIMURGH_RETURN_IF_ERROR(add(products.Weight(), "weight"));
      for (size_t i = first; i < times.size(); ++i) {
        times[i].layer = absl::StrCat(layer.input_width, "x", layer.output_width);
      }
    }
  }
  return times;
}

template <typename T>
StatusOr<double> MatrixPeak(ComputePrecision precision) {
  constexpr size_t kSide = 8192;
  Stopwatch watch;
  SIMURGH_RETURN_IF_ERROR(watch.Start());
  SIMURGH_ASSIGN_OR_RETURN(const auto library, NewLibrary(precision));
  LayerProducts<T> products(kSide, kSide, kSide);
  SIMURGH_RETURN_IF_ERROR(products.Allocate());
  SIMURGH_ASSIGN_OR_RETURN(const PartTime time,
                           TimeProduct(watch, *library, 20, products.Input(), "peak"));
  return time.flop / time.ms / 1e9;
}

}  // namespace

StatusOr<std::vector<PartTime>> MeasureProducts(const Subject& subject, size_t batch,
                                                ComputePrecision precision, size_t repeats) {
  switch (precision) {
    case ComputePrecision::kBf16:
      return ProductsOf<cuda::Bfloat16>(subject, batch, precision, repeats);
    case ComputePrecision::kF16:
      return ProductsOf<cuda::Float16>(subject, batch, precision, repeats);
    case ComputePrecision::kF32:
    case ComputePrecision::kTf32:
      break;
  }
  return ProductsOf<float>(subject, batch, precision, repeats);
}

StatusOr<double> MeasureMatrixPeak(ComputePrecision precision) {
  return precision == ComputePrecision::kBf16  ? MatrixPeak<cuda::Bfloat16>(precision)
         : precision == ComputePrecision::kF16 ? MatrixPeak<cuda::Float16>(precision)
                                               : MatrixPeak<float>(precision);
}

}  // namespace simurgh::bench
