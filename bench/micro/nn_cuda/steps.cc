#include "bench/micro/nn_cuda/steps.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <span>

#include <cuda_runtime.h>

#include "base/random.h"
#include "nn/cuda/cuda_network.h"

namespace simurgh::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<float> RandomValues(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(2.0 * random.Uniform() - 1.0);
  return values;
}

// Dense features, labels and embeddings of the batches in flight.
class Batches {
 public:
  static constexpr size_t kBlocks = 3;

  Batches(const ModelInputs& inputs, size_t rows, DenseNetwork& network)
      : rows_(rows),
        dense_width_(inputs.dense_width),
        dense_(RandomValues(rows * inputs.dense_width, 1)),
        labels_(RandomValues(rows, 2)) {
    for (float& label : labels_) label = label > 0 ? 1.0F : 0.0F;
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks_.push_back(network.blocks().Lease(rows, true));
      std::ranges::copy(RandomValues(rows * inputs.embedding_width, 3 + i),
                        blocks_.back()->embeddings.flat().begin());
    }
  }

  size_t rows() const { return rows_; }
  MatrixView<const float> dense() const { return {dense_.data(), rows_, dense_width_}; }
  std::span<const float> labels() const { return labels_; }
  BatchBlock& block(size_t step) const { return *blocks_[step % kBlocks]; }

 private:
  const size_t rows_;
  const size_t dense_width_;
  const std::vector<float> dense_;
  std::vector<float> labels_;
  std::vector<std::shared_ptr<BatchBlock>> blocks_;
};

// A network that trains on its batches.
class Training {
 public:
  Training(DenseNetwork& network, const Batches& batches) : network_(network), batches_(batches) {}

  // Milliseconds of a step in rows of `steps`. The device applies the optimizer to its gradients
  // by itself. The next step is enqueued before the report of this one is read. Batches are copied
  // in the background.
  StatusOr<double> Measure(size_t steps) {
    std::vector<double> step_ms;
    for (size_t row = 0; row < kRows + 1; ++row) {
      const auto begin = Clock::now();
      for (size_t i = 0; i < steps; ++i) SIMURGH_RETURN_IF_ERROR(TakeStep());
      const std::chrono::duration<double, std::milli> passed = Clock::now() - begin;
      // The first row captures graphs.
      if (row > 0) step_ms.push_back(passed.count() / static_cast<double>(steps));
    }
    SIMURGH_RETURN_IF_ERROR(network_.AwaitGradients(batches_.block(taken_ - 1)));
    return Median(step_ms);
  }

 private:
  Status TakeStep() {
    Status last = absl::OkStatus();
    const auto meanwhile = [&] {
      network_.Load(batches_.block(taken_ + 1), batches_.dense(), batches_.labels());
      if (taken_ > 0) last = network_.AwaitGradients(batches_.block(taken_ - 1));
      network_.StartNext(batches_.block(taken_ + 1), batches_.dense(), batches_.labels(), {});
    };
    network_.ApplyNext(1e-4F);
    SIMURGH_ASSIGN_OR_RETURN(
        const BatchResult result,
        network_.ForwardBackward(batches_.block(taken_), batches_.dense(), batches_.labels(),
                                 probabilities_, {}, meanwhile));
    SIMURGH_RETURN_IF_ERROR(last);
    if (!result.finite) return absl::InternalError("a step's gradients are not finite");
    ++taken_;
    return absl::OkStatus();
  }

  DenseNetwork& network_;
  const Batches& batches_;
  std::vector<float> probabilities_ = std::vector<float>(batches_.rows());
  size_t taken_ = 0;  // Steps.
};

// Copies to or from the host of at least this number of bytes are left out.
size_t left_out = std::numeric_limits<size_t>::max();

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

StatusOr<StepTime> MeasureSteps(const StepPoint& point) {
  const ModelInputs& inputs = point.subject->inputs;
  SIMURGH_ASSIGN_OR_RETURN(
      const cuda::CudaNetwork created,
      cuda::CreateCudaNetwork(point.subject->model,
                              {.inputs = inputs,
                               .optimizer = {.kind = DenseOptimizerConfig::Kind::kAdam},
                               .precision = point.precision,
                               .batch_rows = point.batch},
                              {.graphs = point.graphs}));
  const Batches batches(inputs, point.batch, *created.network);
  Training training(*created.network, batches);
  // Enough to capture a graph for every slot and block.
  const size_t steps = std::max(point.repeats, 4 * Batches::kBlocks);
  StepTime time;
  SIMURGH_ASSIGN_OR_RETURN(time.ms, training.Measure(steps));
  left_out = point.batch * inputs.embedding_width * sizeof(float);
  const StatusOr<double> compute_ms = training.Measure(steps);
  left_out = std::numeric_limits<size_t>::max();
  SIMURGH_ASSIGN_OR_RETURN(time.compute_ms, compute_ms);
  return time;
}

}  // namespace simurgh::bench

// The linker wraps the runtime's function.
extern "C" {

cudaError_t __real_cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  const bool host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost;
  if (host && bytes >= simurgh::bench::left_out) return cudaSuccess;
  return __real_cudaMemcpyAsync(to, from, bytes, kind, stream);
}

}  // extern "C"
