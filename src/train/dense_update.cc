#include "train/dense_update.h"

#include <algorithm>

#include "base/check.h"
#include "telemetry/timeline.h"
#include "train/dense_exchange.h"
#include "train/gradient_reducer.h"

namespace simurgh {
namespace {

// Sums gradients on the ranks' processors.
class SummedUpdate final : public DenseUpdate {
 public:
  SummedUpdate(DenseNetwork& network, Collective& collective, const TrainingConfig& config)
      : DenseUpdate(network),
        reducer_(collective, network.gradients(), config.allreduce,
                 config.mode != TrainingConfig::Mode::kNaiveHybrid) {}

  Status BeginStep(uint64_t step, uint64_t /*trace*/, float /*learning_rate*/,
                   RankStep* ranks) override {
    reducer_.BeginStep(step);
    ranks->on_gradients = [this](size_t first, size_t count) {
      reducer_.OnGradients(first, count);
    };
    return absl::OkStatus();
  }

  Status AwaitSums(uint64_t step, uint64_t trace, absl::FunctionRef<Status()> meanwhile) override {
    const TimelineSpan span("wait for sums", step, trace);
    Status status = absl::OkStatus();
    SIMURGH_RETURN_IF_ERROR(reducer_.Finish([&] { status = meanwhile(); }));
    return status;
  }

  void DropResiduals() override { reducer_.DropResiduals(); }

 private:
  GradientReducer reducer_;
};

bool CountsItems(const DenseNetwork& network) {
  return std::ranges::any_of(network.tensors(), [](const DenseTensor& tensor) {
    return tensor.name.starts_with("item_frequency.");
  });
}

// Mode async: servers own the weights.
class ServerUpdate final : public DenseUpdate {
 public:
  // One push proceeds while the next step computes. More would wait for each other and only add
  // staleness.
  static constexpr uint32_t kMaxStaleness = 2;

  ServerUpdate(DenseNetwork& network, DensePort& port, const TrainingConfig& config, uint64_t run,
               uint32_t rank)
      : DenseUpdate(network),
        has_state_(!network.statistics().empty() || CountsItems(network)),
        exchange_(port, {.run = run,
                         .rank = rank,
                         .optimizer = config.dense_optimizer,
                         .staleness = std::min(config.staleness, kMaxStaleness),
                         .retry_deadline = config.retry_deadline}) {}

  Status Start(std::span<const float> optimizer_state) override {
    return exchange_.Start(network_.parameters(), optimizer_state);
  }

  Status BeginStep(uint64_t step, uint64_t trace, float /*learning_rate*/,
                   RankStep* /*ranks*/) override {
    const TimelineSpan span("wait for weights", step, trace);
    return exchange_.TakeWeights([this] { return network_.parameters(); });
  }

  Status Apply(uint64_t step, float learning_rate, size_t samples) override {
    // An optimizer with momentum would move the weights without gradients, too.
    if (samples == 0) return absl::OkStatus();
    exchange_.Push(step, learning_rate, network_.gradients());
    // Moves batch norm's running statistics and the items' frequencies.
    return has_state_ ? network_.ApplyGradients(0) : absl::OkStatus();
  }

  Status WaitForPushes() override { return exchange_.WaitForPushes(); }
  Status PullWeights() override { return exchange_.Pull(network_.parameters()); }
  StatusOr<std::vector<float>> OptimizerState() override {
    return exchange_.PullState(network_.parameters().size());
  }
  std::vector<uint64_t> TakeGaps() override { return exchange_.TakeGaps(); }
  void Stop() override { exchange_.Stop(); }

 private:
  const bool has_state_;  // The network changes state without the optimizer.
  DenseExchange exchange_;
};

}  // namespace

std::unique_ptr<DenseUpdate> MakeDenseUpdate(const TrainingConfig& config, uint64_t run,
                                             DenseNetwork& network, Collective& collective,
                                             DensePort* dense_port) {
  if (config.mode == TrainingConfig::Mode::kAsync) {
    SIMURGH_CHECK(dense_port != nullptr);
    return std::make_unique<ServerUpdate>(network, *dense_port, config, run, collective.rank());
  }
  // A program sums its gradients itself.
  if (collective.ranks() == 1 || network.sums_on_device() || network.gradients().empty()) {
    return std::make_unique<DenseUpdate>(network);
  }
  return std::make_unique<SummedUpdate>(network, collective, config);
}

}  // namespace simurgh
