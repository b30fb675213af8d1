#pragma once

#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/head_kernels.h"
#include "nn/cuda/interaction_kernels.h"
#include "nn/cuda/layer_norm_kernels.h"
#include "nn/cuda/loss_scale.h"
#include "nn/cuda/map_kernels.h"
#include "nn/cuda/memory_plan.h"
#include "nn/cuda/piece_kernels.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/self_attention_kernels.h"
#include "nn/cuda/slope_kernels.h"
#include "nn/cuda/work.h"
#include "tests/unit/nn/cuda/kernel_runs.h"

namespace simurgh::testing {

// RunKernel on an executor, with matrices of T. Fresh memory is NaN, also between rows.
template <typename Executor, typename T>
class KernelRunner {
 public:
  KernelRunner(Executor& executor, const KernelRun& run) : executor_(executor), run_(run) {}

  KernelResult Run() {
    if (run_.name >= KernelName::kProduct) {
      RunProduct();
    } else if (run_.name >= KernelName::kDot) {
      RunRowKernel();
    } else {
      RunCellKernel();
    }
    return std::move(result_);
  }

 private:
  template <typename U>
  using Matrix = cuda::Matrix<U>;
  using Name = KernelName;

  // A gap, and rows as products read them.
  template <typename U>
  static size_t StrideOf(size_t columns) {
    constexpr size_t kWhole = 2 * cuda::kRowAlignment / sizeof(U);
    return (columns + kWhole) / kWhole * kWhole;
  }

  void* Poisoned(size_t bytes) {
    blocks_.push_back(executor_.AllocateDevice(bytes));
    SIMURGH_CHECK(blocks_.back() != nullptr);
    const std::vector<std::byte> poison(bytes, std::byte{0xff});
    Send(blocks_.back().get(), poison.data(), bytes);
    return blocks_.back().get();
  }
  void Send(void* device, const void* host, size_t bytes) {
    executor_.ToDevice(device, host, bytes);
    SIMURGH_CHECK(executor_.Synchronize().ok());
  }

  template <typename U>
  Matrix<U> NewMatrix(size_t rows, size_t columns) {
    const size_t stride = StrideOf<U>(columns);
    const size_t offset = run_.path == ProductPath::kMisaligned ? 1 : 0;
    auto* const data = static_cast<U*>(Poisoned((rows * stride + offset) * sizeof(U)));
    return {data + offset, rows, columns, stride};
  }
  template <typename U = T>
  Matrix<U> In(size_t index, size_t rows, size_t columns) {
    const std::vector<float>& values = run_.in.at(index);
    SIMURGH_CHECK_EQ(values.size(), rows * columns);
    const Matrix<U> device = NewMatrix<U>(rows, columns);
    std::vector<U> whole(rows * device.stride);
    std::memset(whole.data(), 0xff, whole.size() * sizeof(U));
    for (size_t i = 0; i < values.size(); ++i) {
      cuda::Assign(whole[i / columns * device.stride + i % columns], values[i]);
    }
    Send(device.data, whole.data(), whole.size() * sizeof(U));
    return device;
  }
  Matrix<T> In(size_t index) { return In(index, run_.rows, run_.columns); }
  template <typename U = float>
  U* InVector(size_t index) {
    return In<U>(index, 1, run_.in.at(index).size()).data;
  }

  template <typename U>
  void Out(const Matrix<U>& device) {
    std::vector<U> whole(device.rows * device.stride);
    executor_.ToHost(whole.data(), device.data, whole.size() * sizeof(U));
    const Status status = executor_.Synchronize();
    SIMURGH_CHECK(status.ok()) << status.ToString();
    std::vector<float>& values = result_.out.emplace_back();
    for (size_t i = 0; i < whole.size(); ++i) {
      const float value = cuda::ToFloat(whole[i]);
      if (i % device.stride < device.columns) {
        values.push_back(value);
      } else if (!std::isnan(value)) {
        result_.kept_gaps = false;
      }
    }
  }

  template <typename Kernel>
  void Cells(const Kernel& kernel, const Matrix<T>& out) {
    executor_.ForEachCell(run_.rows, run_.columns, kernel);
    Out(out);
  }

  template <typename Function, typename... Inputs>
  void Map(const Matrix<T>& out, const Function& function, const Inputs&... inputs) {
    cuda::MapCells(executor_, out, function, Matrix<const T>(inputs)...);
    Out(out);
  }

  void RunLayerNorm(const Matrix<const T>& a, const Matrix<T>& out) {
    constexpr float kEpsilon = 1e-5F;
    const Matrix<float> rows = NewMatrix<float>(run_.rows, cuda::kLayerNormColumns);
    executor_.ForEachSum(run_.rows, cuda::RowMean<T>{a, rows});
    executor_.ForEachSum(run_.rows, cuda::RowDeviation<T>{a, kEpsilon, rows});
    if (run_.name == Name::kLayerNorm) {
      return Map(out, cuda::LayerNormValue{rows, InVector(1), InVector(2)}, a);
    }
    const Matrix<const T> dy = In(1);
    const float* const scale = InVector(2);
    executor_.ForEachSum(run_.rows, cuda::RowGradientMean<T, cuda::kRowOffset>{a, dy, scale, rows});
    executor_.ForEachSum(run_.rows, cuda::RowGradientMean<T, cuda::kRowSlope>{a, dy, scale, rows});
    Map(out, cuda::LayerNormGradient{rows, scale}, a, dy);
    const Matrix<float> sums = NewMatrix<float>(1, run_.columns);
    auto* const wide = static_cast<double*>(Poisoned(run_.columns * sizeof(double)));
    cuda::SumMap(executor_, ColumnParts(run_.rows), {wide, sums.data},
                 cuda::LayerNormScaleGradient{rows}, a, dy);
    Out(sums);
  }

  void RunCellKernel() {
    const Matrix<T> a = In(0);
    const Matrix<T> out = NewMatrix<T>(run_.rows, run_.columns);
    const Matrix<T> second = NewMatrix<T>(run_.rows, run_.columns);
    switch (run_.name) {
      case Name::kCopy:
        return Cells(cuda::CopyCell<T, T>{a, out}, out);
      case Name::kAdd: {
        const Matrix<T> b = In(1);
        return Cells(cuda::AddCell<T, T>{a, b}, b);
      }
      case Name::kAddBiasRelu:
        return Cells(cuda::AddBiasCell<T>{a, InVector(1), true}, a);
      case Name::kAddBiasGelu:
        Cells(cuda::AddBiasGeluCell<T>{a, InVector(1), second}, a);
        return Out(second);
      case Name::kReluBackward:
        return Cells(cuda::ActivationBackwardCell<T, ReluFormula>{a, In(1), out}, out);
      case Name::kGelu:
        return Cells(cuda::ActivationCell<T, GeluFormula>{a, out}, out);
      case Name::kGeluBackward:
        return Cells(cuda::ActivationBackwardCell<T, GeluFormula>{a, In(1), out}, out);
      case Name::kSigmoid:
        return Cells(cuda::ActivationCell<T, SigmoidFormula>{a, out}, out);
      case Name::kSigmoidBackward:
        return Cells(cuda::ActivationBackwardCell<T, SigmoidFormula>{a, In(1), out}, out);
      case Name::kSilu:
        return Cells(cuda::ActivationCell<T, SiluFormula>{a, out}, out);
      case Name::kSiluBackward:
        return Cells(cuda::ActivationBackwardCell<T, SiluFormula>{a, In(1), out}, out);
      case Name::kTanh:
        return Cells(cuda::ActivationCell<T, TanhFormula>{a, out}, out);
      case Name::kTanhBackward:
        return Cells(cuda::ActivationBackwardCell<T, TanhFormula>{a, In(1), out}, out);
      case Name::kGate:
        return Cells(cuda::ActivationCell<T, GateFormula>{a, out}, out);
      case Name::kGateBackward:
        return Cells(cuda::ActivationBackwardCell<T, GateFormula>{a, In(1), out}, out);
      case Name::kPrelu:
        return Map(out, cuda::PreluValue{InVector(1)}, a);
      case Name::kPreluBackward:
        return Map(out, cuda::PreluGradient{InVector(2)}, a, In(1));
      case Name::kLayerNorm:
      case Name::kLayerNormBackward:
        return RunLayerNorm(a, out);
      case Name::kCross:
        return Cells(cuda::CrossCombineCell<T>{a, In(1), In(2), out}, out);
      case Name::kCrossBackward:
        Cells(cuda::CrossCombineBackwardCell<T>{a, In(1), In(2), out, second, false}, out);
        return Out(second);
      default:
        return;  // Unknown kernel: without a result the test fails.
    }
  }

  size_t Pairs() const {
    const size_t vectors = run_.columns / run_.depth;
    return vectors * (vectors - 1) / 2;
  }

  void RunRowKernel() {
    const size_t rows = run_.rows;
    const Matrix<T> whole = NewMatrix<T>(rows, run_.columns);
    const Matrix<T> single = NewMatrix<T>(rows, 1);
    const Matrix<float> sums = NewMatrix<float>(rows, run_.depth);
    switch (run_.name) {
      case Name::kDot: {
        const Matrix<T> out = NewMatrix<T>(rows, Pairs());
        cuda::Dot(executor_, Matrix<const T>(In(0)), run_.depth, out);
        return Out(out);
      }
      case Name::kDotBackward:
        cuda::DotBackward(executor_, Matrix<const T>(In(0)), run_.depth,
                          Matrix<const T>(In(1, rows, Pairs())), whole);
        return Out(whole);
      case Name::kFm:
      case Name::kFmBackward: {
        const Matrix<T> a = In(0);
        executor_.ForEachSum(rows, cuda::FmRow<T>{a, sums, single});
        if (run_.name == Name::kFm) return Out(single);
        return Cells(cuda::FmBackwardCell<T>{a, sums, In(1, rows, 1), whole}, whole);
      }
      case Name::kSum:
        executor_.ForEachSum(rows, cuda::SumOfPart<T, T>{In(0), single});
        return Out(single);
      case Name::kSumBackward:
        return Cells(cuda::SumBackwardCell<T>{In(0, rows, 1), whole}, whole);
      case Name::kSoftmax:
        executor_.ForEach(rows, cuda::SoftmaxRow<T>{In(0), whole});
        return Out(whole);
      case Name::kSoftmaxBackward:
        executor_.ForEach(rows, cuda::SoftmaxBackwardRow<T>{In(0), In(1), whole});
        return Out(whole);
      case Name::kL2Norm:
        executor_.ForEach(rows, cuda::L2NormRow<T>{In(0), whole});
        return Out(whole);
      case Name::kL2NormBackward:
        executor_.ForEach(rows, cuda::L2NormBackwardRow<T>{In(0), In(1), whole});
        return Out(whole);
      case Name::kRowProducts:
      case Name::kRowSums:
        return RunHeads();
      case Name::kColumnSums:
        return SumColumns();
      case Name::kUnscale:
        return Unscale();
      case Name::kHead:
      case Name::kHeadBackward:
        return RunHead();
      default:
        return RunPieces(whole);
    }
  }

  void RunPieces(const Matrix<T>& whole) {
    const size_t dim = run_.depth;
    const size_t terms = run_.columns / (1 + dim);  // mix
    const Matrix<const T> a = In(0);
    const Matrix<T> out = NewMatrix<T>(run_.rows, dim);
    const auto cells = [&](const auto& kernel) { executor_.ForEachCell(run_.rows, dim, kernel); };
    switch (run_.name) {
      case Name::kPieces:
        cells(cuda::ProductCell<T>{a, out});
        return Out(out);
      case Name::kPiecesBackward:
        cells(cuda::ProductBackwardCell<T>{a, In(1, run_.rows, dim), whole});
        return Out(whole);
      case Name::kJoint:
        cells(cuda::JointCell<T>{a, out});
        return Out(out);
      case Name::kJointBackward:
        return Cells(cuda::JointBackwardCell<T>{a, In(1, run_.rows, dim), whole}, whole);
      case Name::kMix:
        cells(cuda::MixCell<T>{a, terms, out});
        return Out(out);
      case Name::kMixBackward: {
        const Matrix<const T> dy = In(1, run_.rows, dim);
        executor_.ForEachSum(run_.rows * terms, cuda::MixGateGradient<T>{a, terms, dy, whole});
        executor_.ForEachCell(run_.rows, terms * dim,
                              cuda::MixBackwardCell<T>{a, terms, dy, whole});
        return Out(whole);
      }
      default:
        return;  // Unknown kernel: without a result the test fails.
    }
  }

  // The factor is that of scores.
  void RunHeads() {
    const size_t places = run_.depth;
    const size_t dim = run_.columns / run_.heads;
    const float factor = 1.0F / std::sqrt(static_cast<float>(dim));
    const size_t columns = run_.heads * places;
    if (run_.name == Name::kRowProducts) {
      const Matrix<const T> input = In(2, run_.rows / places, places * (run_.columns + 1));
      const Matrix<float> out = NewMatrix<float>(run_.rows, columns);
      executor_.ForEachCell(run_.rows, columns,
                            cuda::RowProductCell<T>{{input, 0, places, run_.columns},
                                                    /*causal=*/true,
                                                    dim,
                                                    In(0),
                                                    In(1),
                                                    factor,
                                                    /*unread=*/-7.0F,
                                                    out});
      return Out(out);
    }
    const Matrix<const float> weights = In<float>(1, run_.rows, columns);
    const Matrix<const T> a = In(0);
    for (const bool transposed : {false, true}) {
      const Matrix<T> out = NewMatrix<T>(run_.rows, run_.columns);
      Cells(cuda::RowSumCell<T>{places, dim, weights, transposed, a, factor, out}, out);
    }
  }

  cuda::ColumnScratch ColumnParts(size_t rows, size_t more_columns = 0) {
    const size_t columns = run_.columns + more_columns;
    const size_t blocks = cuda::SumBlocks(rows);
    const size_t groups = cuda::SumGroups(rows);
    return {
        {static_cast<float*>(Poisoned(blocks * columns * sizeof(float))), blocks, columns, columns},
        {static_cast<double*>(Poisoned(groups * columns * sizeof(double))), groups, columns,
         columns}};
  }

  void SumColumns() {
    const size_t columns = run_.columns;
    auto* sums = static_cast<double*>(Poisoned(columns * sizeof(double)));
    const Matrix<float> out = NewMatrix<float>(1, columns);
    cuda::SumColumns(executor_, cuda::ValueTerm<T>{In(0)}, run_.rows, ColumnParts(run_.rows),
                     {sums, out.data});
    Out(out);
  }

  void RunHead() {
    const Matrix<const T> a = In(0);
    if (run_.name == Name::kHead) {
      const Matrix<float> logits = NewMatrix<float>(run_.rows, 1);
      const Matrix<float> outputs = NewMatrix<float>(1, run_.rows);
      executor_.ForEachSum(run_.rows, cuda::HeadRow<T, float, cuda::OutputRow>{
                                          a,
                                          InVector(1),
                                          InVector(2),
                                          logits,
                                          {.logits = logits, .outputs = outputs.data},
                                          a.template Packs<cuda::kPackOf<T>>()});
      return Out(logits);
    }
    const Matrix<const T> dy = In(1, run_.rows, 1);
    const Matrix<T> dx = NewMatrix<T>(run_.rows, run_.columns);
    const cuda::ColumnScratch scratch = ColumnParts(run_.rows, 1);
    const Matrix<float> sums = NewMatrix<float>(1, run_.columns + 1);
    executor_.ForEachCell(
        scratch.partial.rows, run_.columns,
        cuda::HeadBackwardCell<T, ReluFormula>{a, a, dy, InVector(2), dx, scratch.partial});
    cuda::FinishColumns(executor_, scratch,
                        {static_cast<double*>(Poisoned(sums.columns * sizeof(double))), sums.data});
    Out(dx);
    Out(sums);
  }

  void Unscale() {
    const float scale = run_.in.at(1).at(0);
    const cuda::LossScale state{.scale = scale, .inverse = 1.0F / scale};
    auto* device = static_cast<cuda::LossScale*>(Poisoned(sizeof(state)));
    Send(device, &state, sizeof(state));
    const Matrix<float> values = In<float>(0, 1, run_.in[0].size());
    executor_.ForEachCell(1, values.columns, cuda::Unscale{device, values});
    Out(values);
  }

  // With Products' kernels for an epilogue that is not fused.
  void RunProduct() {
    const auto operand = [&](size_t index, size_t rows, size_t columns, bool transposed) {
      return transposed ? In(index, columns, rows) : In(index, rows, columns);
    };
    const Matrix<T> a = operand(0, run_.rows, run_.depth, run_.a_transposed);
    const Matrix<T> b = operand(1, run_.depth, run_.columns, run_.b_transposed);
    const Matrix<T> out = NewMatrix<T>(run_.rows, run_.columns);
    cuda::Gemm<T, T> gemm{.a = a,
                          .a_transposed = run_.a_transposed,
                          .b = b,
                          .b_transposed = run_.b_transposed,
                          .depth = run_.depth,
                          .d = out};
    switch (run_.name) {
      case Name::kProduct:
        executor_.Multiply(gemm);
        return Out(out);
      case Name::kProductAdded:
        gemm.c = In(2);
        gemm.beta = 1.0F;
        executor_.Multiply(gemm);
        return Out(out);
      case Name::kProductBias:
      case Name::kProductRelu:
      case Name::kProductReluBackward:
        return RunBiasRelu(gemm);
      case Name::kProductGelu:
      case Name::kProductGeluBackward:
        return RunGelu(gemm);
      default:
        return RunBiasGradient(gemm);
    }
  }

  void RunBiasRelu(cuda::Gemm<T, T> gemm) {
    const bool relu = run_.name != Name::kProductBias;
    cuda::ReluMask mask;
    const size_t bits = cuda::kMaskRowBits;
    mask.row_bits = (run_.columns + bits - 1) / bits * bits;
    const size_t offset = run_.path == ProductPath::kMisaligned ? 1 : 0;
    mask.bits = static_cast<std::byte*>(Poisoned(run_.rows * mask.row_bits / 8 + offset)) + offset;
    gemm.epilogue = relu ? cuda::Epilogue::kBiasReluMask : cuda::Epilogue::kBias;
    gemm.bias = InVector<T>(2);
    gemm.mask = &mask;
    if (!executor_.Multiply(gemm)) {
      executor_.ForEachCell(run_.rows, run_.columns,
                            cuda::AddBiasCell<T>{gemm.d, InVector(2), relu});
    }
    if (run_.name != Name::kProductReluBackward) return Out(gemm.d);
    const Matrix<const T> output = gemm.d;
    gemm.a = In(3, run_.rows, run_.depth);
    gemm.a_transposed = false;
    gemm.d = NewMatrix<T>(run_.rows, run_.columns);
    gemm.epilogue = cuda::Epilogue::kReluBackward;
    gemm.bias = nullptr;
    if (!executor_.Multiply(gemm)) {
      executor_.ForEachCell(run_.rows, run_.columns,
                            cuda::ActivationBackwardCell<T, ReluFormula>{output, gemm.d, gemm.d});
    }
    Out(gemm.d);
  }

  void RunGelu(cuda::Gemm<T, T> gemm) {
    if (run_.name == Name::kProductGelu) {
      gemm.epilogue = cuda::Epilogue::kBiasGelu;
      gemm.bias = InVector<T>(2);
      gemm.gelu_input = NewMatrix<T>(run_.rows, run_.columns);
      if (!executor_.Multiply(gemm)) {
        executor_.ForEachCell(run_.rows, run_.columns,
                              cuda::AddBiasGeluCell<T>{gemm.d, InVector(2), gemm.gelu_input});
      }
      Out(gemm.d);
      return Out(gemm.gelu_input);
    }
    gemm.epilogue = cuda::Epilogue::kGeluBackward;
    gemm.gelu_input = In(2);
    if (!executor_.Multiply(gemm)) {
      executor_.ForEachCell(
          run_.rows, run_.columns,
          cuda::ActivationBackwardCell<T, GeluFormula>{gemm.gelu_input, gemm.d, gemm.d});
    }
    Out(gemm.d);
  }

  void RunBiasGradient(const cuda::Gemm<T, T>& plain) {
    const Matrix<float> out = NewMatrix<float>(run_.rows, run_.columns);
    const Matrix<float> bias = NewMatrix<float>(1, run_.columns);
    const cuda::Gemm<T, float> gemm{.a = plain.a,
                                    .a_transposed = plain.a_transposed,
                                    .b = plain.b,
                                    .depth = plain.depth,
                                    .d = out,
                                    .epilogue = cuda::Epilogue::kBiasGradient,
                                    .bias_gradient = bias.data};
    const bool fused = executor_.Multiply(gemm);
    Out(out);
    if (fused) return Out(bias);
    auto* sums = static_cast<double*>(Poisoned(run_.columns * sizeof(double)));
    cuda::SumColumns(executor_, cuda::ValueTerm<T>{plain.b}, run_.depth, ColumnParts(run_.depth),
                     {sums, bias.data});
    Out(bias);
  }

  Executor& executor_;
  const KernelRun& run_;
  std::vector<cuda::DeviceMemory> blocks_;
  KernelResult result_;
};

template <typename Executor>
KernelResult RunKernelOn(Executor& executor, const KernelRun& run) {
  switch (run.precision) {
    case ComputePrecision::kBf16:
      return KernelRunner<Executor, cuda::Bfloat16>(executor, run).Run();
    case ComputePrecision::kF16:
      return KernelRunner<Executor, cuda::Float16>(executor, run).Run();
    case ComputePrecision::kF32:
    case ComputePrecision::kTf32:
      break;
  }
  return KernelRunner<Executor, float>(executor, run).Run();
}

}  // namespace simurgh::testing
