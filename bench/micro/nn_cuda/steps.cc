#include "bench/micro/nn_cuda/steps.h"

#include <algorithm>
#include <chrono>

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

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

StatusOr<StepTime> MeasureSteps(const StepPoint& point) {
  const ModelInputs& inputs = point.subject->inputs;
  const size_t batch = point.batch;
  SIMURGH_ASSIGN_OR_RETURN(
      const cuda::CudaNetwork created,
      cuda::CreateCudaNetwork(point.subject->model,
                              {.inputs = inputs,
                               .optimizer = {.kind = DenseOptimizerConfig::Kind::kAdam},
                               .precision = point.precision,
                               .batch_rows = batch},
                              {.graphs = point.graphs, .time_compute = true}));
  const std::vector<float> dense = RandomValues(batch * inputs.dense_width, 1);
  const std::vector<float> embeddings = RandomValues(batch * inputs.embedding_width, 2);
  std::vector<float> labels = RandomValues(batch, 3);
  for (float& label : labels) label = label > 0 ? 1.0F : 0.0F;
  std::vector<float> gradient(embeddings.size());
  std::vector<float> probabilities(batch);
  std::vector<double> step_ms;
  std::vector<double> compute_ms;
  const size_t ahead = point.repeats / 4 + 3;  // At least until the step is a graph.
  for (size_t i = 0; i < ahead + point.repeats; ++i) {
    const auto begin = Clock::now();
    SIMURGH_ASSIGN_OR_RETURN(const BatchResult result,
                             created.network->ForwardBackward(
                                 {dense.data(), batch, inputs.dense_width},
                                 {embeddings.data(), batch, inputs.embedding_width}, labels,
                                 {gradient.data(), batch, inputs.embedding_width}, probabilities));
    if (!result.finite) return absl::InternalError("a step's gradients are not finite");
    SIMURGH_RETURN_IF_ERROR(created.network->ApplyGradients(1e-4F));
    // Waits for the optimizer, too.
    SIMURGH_ASSIGN_OR_RETURN(const double compute, created.compute_ms());
    const std::chrono::duration<double, std::milli> taken = Clock::now() - begin;
    if (i < ahead) continue;
    step_ms.push_back(taken.count());
    compute_ms.push_back(compute);
  }
  return StepTime{.ms = Median(step_ms), .compute_ms = Median(compute_ms)};
}

}  // namespace simurgh::bench
