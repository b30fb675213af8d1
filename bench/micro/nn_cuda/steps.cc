#include "bench/micro/nn_cuda/steps.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "nn/cuda/cuda_network.h"
#include "simurgh/base/random.h"

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

Status TakeStep(DenseNetwork& network, const Batches& batches, size_t step,
                std::span<float> probabilities, const std::function<void()>& meanwhile) {
  SIMURGH_ASSIGN_OR_RETURN(const BatchResult result,
                           network.ForwardBackward(batches.block(step), batches.dense(),
                                                   batches.labels(), probabilities, {}, meanwhile));
  if (!result.finite) return absl::InternalError("a step's gradients are not finite");
  return network.ApplyGradients(1e-4F);
}

// Device milliseconds of single steps.
StatusOr<double> MeasureCompute(const cuda::CudaNetwork& created, const Batches& batches,
                                size_t ahead, size_t repeats) {
  std::vector<float> probabilities(batches.rows());
  std::vector<double> compute_ms;
  for (size_t i = 0; i < ahead + repeats; ++i) {
    SIMURGH_RETURN_IF_ERROR(TakeStep(*created.network, batches, i, probabilities, {}));
    // Also waits for the optimizer.
    SIMURGH_ASSIGN_OR_RETURN(const double compute, created.compute_ms());
    if (i >= ahead) compute_ms.push_back(compute);
  }
  return Median(compute_ms);
}

// Milliseconds from one step to the next, with copies in the background.
StatusOr<double> MeasureOverlapped(DenseNetwork& network, const Batches& batches, size_t ahead,
                                   size_t repeats) {
  std::vector<float> probabilities(batches.rows());
  std::vector<double> step_ms;
  auto begin = Clock::now();
  for (size_t i = 0; i < ahead + repeats; ++i) {
    Status taken = absl::OkStatus();
    const auto meanwhile = [&] {
      network.Load(batches.block(i + 1), batches.dense(), batches.labels());
      if (i > 0) taken = network.AwaitGradients(batches.block(i - 1));
    };
    SIMURGH_RETURN_IF_ERROR(TakeStep(network, batches, i, probabilities, meanwhile));
    SIMURGH_RETURN_IF_ERROR(taken);
    const auto end = Clock::now();
    const std::chrono::duration<double, std::milli> passed = end - std::exchange(begin, end);
    if (i >= ahead) step_ms.push_back(passed.count());
  }
  SIMURGH_RETURN_IF_ERROR(network.AwaitGradients(batches.block(ahead + repeats - 1)));
  return Median(step_ms);
}

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
                              {.graphs = point.graphs, .time_compute = true}));
  const Batches batches(inputs, point.batch, *created.network);
  // Enough to capture a graph for every slot and block.
  const size_t ahead = point.repeats / 4 + 4 * Batches::kBlocks;
  SIMURGH_ASSIGN_OR_RETURN(const double compute_ms,
                           MeasureCompute(created, batches, ahead, point.repeats));
  SIMURGH_ASSIGN_OR_RETURN(const double ms,
                           MeasureOverlapped(*created.network, batches, ahead, point.repeats));
  return StepTime{.ms = ms, .compute_ms = compute_ms};
}

}  // namespace simurgh::bench
