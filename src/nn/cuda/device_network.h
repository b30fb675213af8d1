#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "nn/cuda/in_batch_stage.h"
#include "nn/cuda/pass.h"
#include "nn/cuda/rank_reducer.h"
#include "nn/cuda/stepper.h"
#include "nn/cuda/tensors.h"
#include "nn/cuda/transfers.h"
#include "nn/cuda/work.h"
#include "nn/dense_network.h"
#include "nn/dense_tensors.h"

namespace simurgh::cuda {

// The network on a device. T: type of activations and of products' operands: float, Bfloat16 or
// Float16, whose gradients are scaled (loss_scale.h). Weights, their gradients and all sums are f32
// or f64.
//
// Executor is the device: it allocates, copies, and runs kernels and products in the order in which
// they are enqueued; Synchronize returns its errors. CudaExecutor is one; tests have another one
// that runs everything on the host.
template <typename Executor, typename T>
class DeviceNetwork final : public DenseNetwork {
 public:
  // Errors: RESOURCE_EXHAUSTED when the device has no memory for the weights.
  static StatusOr<std::unique_ptr<DenseNetwork>> Create(ModelPlan plan,
                                                        std::span<const TaskConfig> tasks,
                                                        const DenseNetworkOptions& options,
                                                        std::unique_ptr<Executor> executor) {
    std::unique_ptr<DeviceNetwork> network(
        new DeviceNetwork(std::move(plan), tasks, options, std::move(executor)));
    SIMURGH_RETURN_IF_ERROR(network->Initialize());
    return network;
  }

  ~DeviceNetwork() override {
    GiveStartedUp();
    executor_->Drain();
  }

  StatusOr<BatchResult> ForwardBackward(BatchBlock& batch_block, MatrixView<const float> dense,
                                        std::span<const float> labels,
                                        std::span<float> probabilities, const RankStep& step,
                                        const std::function<void()>& meanwhile) override {
    PinnedBlock& block = PinnedOf(batch_block);
    const size_t rows = block.rows;
    CheckDense(dense, rows);
    SIMURGH_CHECK_EQ(labels.size(), plan_.LabelCount(rows));
    SIMURGH_CHECK_EQ(probabilities.size(), rows * tasks());
    SIMURGH_CHECK_EQ(block.encoded_gradients.bytes.size(), block.transfer.embedding_gradient.bytes);

    // The last sums were not applied.
    const bool left_out = std::exchange(step_, Step::kNone) != Step::kNone;
    if (left_out && reducer_ != nullptr) reducer_->DropResiduals();
    const bool applied = next_rate_.has_value();
    step_rows_ = step.sum ? SamplesOf(step, rows) : rows;
    const PinnedBlock* const started = std::exchange(started_, nullptr);
    SIMURGH_CHECK(started == nullptr || started == &block);
    const Status ran = [&]() -> Status {
      if (started == nullptr) {
        SIMURGH_ASSIGN_OR_RETURN(const InBatchItems items, ItemsOf(step, labels, rows));
        SIMURGH_RETURN_IF_ERROR(Prepare(block, step.gather ? items.count() : 0));
        transfers_.Begin(block, dense, labels);
        CopyWeights(Copied::kParameters);
        if (HostSums(step)) return RunHostSums(step, block, items, meanwhile);
        EnqueuePass(step, block, items);
      }
      return FinishPass(block, meanwhile);
    }();
    next_rate_.reset();
    // Otherwise the enqueued sums may wait for ranks that have ended.
    if (!ran.ok() && reducer_ != nullptr) reducer_->sums().GiveUp(ran);
    SIMURGH_RETURN_IF_ERROR(ran);

    const StepReport report = *block.Out<StepReport>(block.transfer.report);
    TakeProbabilities(block, probabilities);
    const BatchResult result{
        .loss = report.loss, .finite = report.not_finite == 0, .loss_scale = report.loss_scale};
    step_ = !result.finite ? Step::kNotFinite : applied ? Step::kNone : Step::kReady;
    return result;
  }

  bool ApplyNext(float learning_rate) override {
    next_rate_ = learning_rate;
    return true;
  }

  bool overlaps() const override { return true; }
  void Load(BatchBlock& batch_block, MatrixView<const float> dense,
            std::span<const float> labels) override {
    PinnedBlock& block = PinnedOf(batch_block);
    executor_->MakeCurrent();
    // A batch that does not fit waits for ForwardBackward, which reallocates.
    if (room_.Fits(block)) transfers_.Load(block, dense, labels);
  }
  bool StartNext(BatchBlock& batch_block, MatrixView<const float> dense,
                 std::span<const float> labels, const RankStep& step) override {
    PinnedBlock& block = PinnedOf(batch_block);
    if (!next_rate_ || HostSums(step) || !room_.Fits(block)) return false;
    // Ranks that gather items would have to start together.
    if (plan_.is_in_batch && step.gather) return false;
    // Residuals of a step that is not finite must be dropped before the next sums.
    if (reducer_ != nullptr && reducer_->keeps_residuals()) return false;
    executor_->MakeCurrent();
    const StatusOr<InBatchItems> items = ItemsOf(step, labels, block.rows);
    SIMURGH_CHECK(items.ok());  // Nothing was gathered.
    transfers_.Begin(block, dense, labels);
    EnqueuePass(step, block, *items);
    started_ = &block;
    return true;
  }
  Status AwaitGradients(BatchBlock& block) override {
    return transfers_.AwaitGradients(PinnedOf(block));
  }

  Status ApplyGradients(float learning_rate) override {
    const Step step = std::exchange(step_, Step::kNone);
    if (step != Step::kReady) {
      return absl::FailedPreconditionError(
          step == Step::kNone
              ? "dense network: no gradients since the last step; call ForwardBackward"
              : "dense network: the last gradients are not finite; skip the batch");
    }
    SIMURGH_RETURN_IF_ERROR(std::exchange(error_, absl::OkStatus()));
    executor_->MakeCurrent();
    SendMirrors();
    EnqueueStep(learning_rate, nullptr);
    return absl::OkStatus();
  }

  Status Predict(BatchBlock& batch_block, MatrixView<const float> dense,
                 std::span<float> outputs) override {
    PinnedBlock& block = PinnedOf(batch_block);
    const size_t rows = block.rows;
    SIMURGH_CHECK_EQ(outputs.size(), rows * tasks());
    CheckDense(dense, rows);
    SIMURGH_CHECK(started_ == nullptr);
    if (rows == 0) return absl::OkStatus();
    SIMURGH_RETURN_IF_ERROR(Prepare(block));
    transfers_.Begin(block, dense, {});
    CopyWeights(stepper_.Average().empty() ? Copied::kParameters : Copied::kAverage);
    const Work work{
        .kind = Work::kPredict, .slot = block.slot, .rows = rows, .pools = tensors_.pools()};
    executor_->Run(work, [this] { pass_.Predict(WeightsOf(copied_)); });
    transfers_.End(block);
    SIMURGH_RETURN_IF_ERROR(transfers_.AwaitReport(block));
    sends_ = false;
    TakeProbabilities(block, outputs);
    return absl::OkStatus();
  }

  StatusOr<MatrixView<const float>> LastTowerInput() override {
    if (tensors_.rows() == 0) return MatrixView<const float>();
    executor_->MakeCurrent();
    const Matrix<const T> input = tensors_.View(tensors_.Memory(plan_.towers.size() - 1).input);
    const size_t bytes = input.rows * input.stride * sizeof(T);
    if (last_input_.size() < bytes) last_input_ = PinnedBuffer(*executor_, bytes);
    executor_->ToHost(last_input_.data(), input.data, bytes);
    SIMURGH_RETURN_IF_ERROR(executor_->Synchronize());
    const Matrix<const T> values{reinterpret_cast<const T*>(last_input_.data()), input.rows,
                                 input.columns, input.stride};
    last_vectors_.resize(input.rows * input.columns);
    float* to = last_vectors_.data();
    for (size_t row = 0; row < values.rows; ++row) {
      for (size_t column = 0; column < values.columns; ++column) {
        *to++ = ToFloat(values(row, column));
      }
    }
    return MatrixView<const float>(last_vectors_.data(), input.rows, input.columns);
  }

  BlockPool& blocks() override { return blocks_; }

  std::span<float> parameters() override { return Look(parameters_, true); }
  std::span<float> gradients() override { return Look(gradients_, hosts_sum_); }
  std::span<float> statistics() override {
    if (plan_.statistics_count == 0) return {};
    return Look(state_, true).first(plan_.statistics_count);
  }
  std::span<const float> state() const override { return Look(state_, false); }
  std::vector<DenseTensor> tensors() const override {
    return TensorsOf(plan_, options_.optimizer, kIsScaled<T>);
  }

  Status Restore(std::span<const float> parameters, std::span<const float> state) override {
    SIMURGH_RETURN_IF_ERROR(
        CheckRestored(parameters, state, tensors_.parameters(), tensors_.state()));
    std::ranges::copy(parameters, Look(parameters_, true).begin());
    std::ranges::copy(state, Look(state_, true).begin());
    if (reducer_ != nullptr) reducer_->DropResiduals();
    step_ = Step::kNone;
    return std::exchange(error_, absl::OkStatus());
  }

  Status CheckFinite() override {
    const std::span<const float> parameters = Look(parameters_, false);
    const std::span<const float> statistics = state().first(plan_.statistics_count);
    SIMURGH_RETURN_IF_ERROR(std::exchange(error_, absl::OkStatus()));
    return CheckFiniteWeights(plan_, parameters, statistics);
  }

  std::optional<int> cuda_device() const override { return executor_->device(); }

  Status JoinRanks(const DeviceRanks& ranks) override {
    LeaveRanks();
    executor_->MakeCurrent();
    SIMURGH_ASSIGN_OR_RETURN(
        reducer_, RankReducer<Executor>::Create(plan_, ranks, *executor_, tensors_.gradients()));
    return absl::OkStatus();
  }
  bool sums_on_device() const override { return reducer_ != nullptr; }
  void LeaveRanks() override {
    GiveStartedUp();
    // Captured work calls the reducer.
    executor_->ForgetRuns();
    reducer_.reset();
  }

 private:
  // State of the gradients.
  enum class Step { kNone, kReady, kNotFinite };

  // The weights whose copies products use.
  enum class Copied { kNone, kParameters, kAverage };

  DeviceNetwork(ModelPlan plan, std::span<const TaskConfig> tasks,
                const DenseNetworkOptions& options, std::unique_ptr<Executor> executor)
      : plan_(std::move(plan)),
        options_(options),
        executor_(std::move(executor)),
        codes_(plan_, options_.wire),
        blocks_(plan_, codes_, options_, *executor_),
        tensors_(plan_, codes_, options_.optimizer),
        transfers_(*executor_, tensors_),
        room_(*executor_, tensors_, transfers_),
        pass_(plan_, tasks, options_.seed, *executor_, tensors_),
        stepper_(plan_, options_.optimizer, *executor_, tensors_) {}

  Status Initialize() {
    weights_ = executor_->AllocateDevice(tensors_.weight_bytes());
    request_ = executor_->AllocatePinned(kSlots * sizeof(StepRequest));
    dropout_steps_ = executor_->AllocatePinned(kSlots * sizeof(uint64_t));
    if (weights_ == nullptr || request_ == nullptr || dropout_steps_ == nullptr) {
      return absl::ResourceExhaustedError(
          "dense network: the device has no memory for the weights; use narrower layers");
    }
    tensors_.SetWeights(weights_.get());
    // Products read padding after the weights, which must be zero.
    executor_->Zero(weights_.get(), tensors_.weight_bytes());
    parameters_ = HostMirror(tensors_.parameters());
    gradients_ = HostMirror(tensors_.gradients());
    state_ = HostMirror(tensors_.state());
    const std::span<float> parameters = Look(parameters_, true);
    const std::span<float> state = Look(state_, true);
    InitializeParameters(plan_, options_.seed, parameters);
    InitializeStatistics(plan_, state.first(plan_.statistics_count));
    const size_t values = stepper_.Values().size();
    cpu::InitializeOptimizerState(options_.optimizer,
                                  state.subspan(plan_.statistics_count, values));
    cpu::InitializeWeightAverage(
        parameters, state.subspan(plan_.statistics_count + values, stepper_.Average().size()));
    if (plan_.counts_items) {
      std::ranges::fill(state.subspan(plan_.statistics_count + values + stepper_.Average().size()),
                        0.0F);
    }
    if constexpr (kIsScaled<T>) {
      std::ranges::copy(std::bit_cast<std::array<float, kLossScaleValues>>(LossScale()),
                        state.last(kLossScaleValues).begin());
    }
    SendMirrors();
    executor_->ToDevice(tensors_.blocks(), tensors_.copied_blocks().data(),
                        tensors_.copied_blocks().size_bytes());
    executor_->ToDevice(tensors_.code_table(), codes_.table.data(),
                        codes_.table.size() * sizeof(uint32_t));
    if (codes_.pools()) {
      executor_->ToDevice(tensors_.pooled_features(), codes_.features.data(),
                          codes_.features.size() * sizeof(PooledFeature));
      executor_->ToDevice(tensors_.feature_of(), codes_.feature_of.data(),
                          codes_.feature_of.size() * sizeof(uint32_t));
    }
    SIMURGH_RETURN_IF_ERROR(std::exchange(error_, absl::OkStatus()));
    if (options_.batch_rows > 0) {
      SIMURGH_RETURN_IF_ERROR(room_.Reserve(options_.batch_rows, blocks_.row_input_bytes()));
    }
    sends_ = false;
    return executor_->Synchronize();
  }

  static uint64_t SamplesOf(const RankStep& step, size_t rows) {
    return step.global_samples > 0 ? step.global_samples : rows;
  }

  static uint64_t DivisorOf(const RankStep& step, size_t rows) {
    return step.divisor > 0 ? step.divisor : SamplesOf(step, rows);
  }

  // The pass that was started waits for ranks which may never start it.
  void GiveStartedUp() {
    if (std::exchange(started_, nullptr) == nullptr || reducer_ == nullptr) return;
    reducer_->sums().GiveUp(absl::CancelledError("training has ended"));
  }

  // Returns the part of a pass that all kinds of sums share.
  RankPass RankPassOf(const RankStep& step, const PinnedBlock& block) const {
    // The host has waited for the slot's last pass, which has thus read its value.
    uint64_t* const dropout = reinterpret_cast<uint64_t*>(dropout_steps_.get()) + block.slot;
    *dropout = DropoutStep(step.step, step.rank);
    return {.samples = SamplesOf(step, block.rows),
            .divisor = DivisorOf(step, block.rows),
            .dropout_step = dropout};
  }

  // Returns whether the caller sums on the host, as with the CPU backend.
  bool HostSums(const RankStep& step) const {
    return reducer_ == nullptr &&
           (step.sum || step.on_gradients || (plan_.is_in_batch && step.gather));
  }

  // Returns the items that compete in a step; none without the loss in_batch_softmax.
  StatusOr<InBatchItems> ItemsOf(const RankStep& step, std::span<const float> labels,
                                 size_t rows) const {
    if (!plan_.is_in_batch) return InBatchItems();
    // The device gathers their vectors.
    const MatrixView<const float> vectors(nullptr, rows, 0, 0);
    return GatherItems(labels, vectors, step, [](size_t) { return MatrixView<float>(); });
  }

  // Enqueues the copy of what the device needs to know of the items.
  void SendItems(const InBatchItems& items, const RankStep& step, const PinnedBlock& block,
                 RankPass& ranks) {
    if (!plan_.is_in_batch) return;
    ranks.in_batch = {.rows = block.rows,
                      .uniform = step.uniform_negatives,
                      .items = items.count(),
                      .share = items.share,
                      .own = items.own};
    const InBatchLayout layout = PlanItems(plan_, block.rows, items.count());
    // The host has waited for the slot's last pass, which has thus read its values.
    AlignedBuffer& staged = staged_items_[block.slot];
    if (staged.size() < layout.bytes) staged = PinnedBuffer(*executor_, layout.bytes);
    StageItems(items, ranks.in_batch, step, plan_.counts_items, layout, staged.data());
    executor_->ToDevice(tensors_.template InBatch<std::byte>(tensors_.in_batch().staged),
                        staged.data(), layout.bytes);
    step_items_ = items.count();
  }

  void EnqueueWork(const RankPass& ranks, size_t rows) {
    rows > 0 ? pass_.Train(ranks) : pass_.TakePart(ranks);
    if (reducer_ != nullptr) reducer_->Finish();
    pass_.CheckFinite(ranks);
    pass_.EncodeGradients();
  }

  // Enqueues forward and backward of the batch whose transfer has begun.
  void EnqueuePass(const RankStep& step, const PinnedBlock& block, const InBatchItems& items) {
    hosts_sum_ = false;
    if constexpr (kIsScaled<T>) state_.DeviceChanged();  // The pass updates the loss scale.
    RankPass ranks = RankPassOf(step, block);
    SendItems(items, step, block, ranks);
    if (reducer_ != nullptr) {
      ranks.on_gradients = [this](size_t first, size_t) { reducer_->OnGradients(first); };
      ranks.sum_flag = [this](double* value) { reducer_->SumValues(value, 1); };
      if (step.sum) {
        ranks.sum_statistics = [this](double* values, size_t count) {
          reducer_->SumValues(values, count);
        };
      }
      if (step.gather) {
        ranks.gather = [this](std::span<const std::byte> own, std::byte* all) {
          reducer_->Gather(own, all);
        };
        ranks.sum_floats = [this](std::span<float> values) { reducer_->SumFloats(values); };
      }
    }
    const Work work{.kind = Work::kTrain,
                    .slot = block.slot,
                    .rows = block.rows,
                    .samples = ranks.samples,
                    .divisor = ranks.divisor,
                    .shares_statistics = bool{ranks.sum_statistics},
                    .pools = tensors_.pools(),
                    .items = ranks.in_batch.items,
                    .uniform_negatives = ranks.in_batch.uniform};
    executor_->Run(work, [&] { EnqueueWork(ranks, block.rows); });
    transfers_.End(block);
    gradients_.DeviceChanged();
  }

  // Enqueues the optimizer and waits for the report.
  Status FinishPass(const PinnedBlock& block, const std::function<void()>& meanwhile) {
    step_slot_ = block.slot;
    if (next_rate_) EnqueueStep(*next_rate_, tensors_.report());
    if (reducer_ != nullptr) reducer_->sums().StepEnqueued();
    if (meanwhile) meanwhile();
    SIMURGH_RETURN_IF_ERROR(reducer_ == nullptr ? transfers_.AwaitReport(block)
                                                : AwaitRanks(block));
    sends_ = false;
    return absl::OkStatus();
  }

  // Enqueues the optimizer. report: in device memory; see Stepper::Apply.
  void EnqueueStep(float learning_rate, const StepReport* report) {
    // The host has waited for a pass since the slot's last step, which has thus read its request.
    StepRequest* const request = reinterpret_cast<StepRequest*>(request_.get()) + step_slot_;
    *request = {.rate = learning_rate, .samples = static_cast<double>(step_rows_)};
    const Work work{.kind = Work::kApply,
                    .slot = step_slot_,
                    .decides = report != nullptr,
                    .items = step_items_};
    executor_->Run(work, [&] { stepper_.Apply(request, report, step_items_); });
    // A rate of 0 leaves the weights unchanged.
    if (learning_rate > 0) parameters_.DeviceChanged();
    if (!tensors_.state().empty()) state_.DeviceChanged();
    if (copied_ != Copied::kParameters) copied_ = Copied::kNone;
  }

  std::span<const float> WeightsOf(Copied copied) const {
    return copied == Copied::kAverage ? stepper_.Average().subspan(1) : tensors_.parameters();
  }
  // Replaces the copies for products by copies of these weights.
  void CopyWeights(Copied of) {
    if (copied_ == of) return;
    stepper_.CopyWeights(WeightsOf(of));
    copied_ = of;
  }

  Status AwaitRanks(const PinnedBlock& block) {
    DeviceSums& sums = reducer_->sums();
    Status waited = transfers_.AwaitReport(block, [this] { return reducer_->Check(); });
    sums.StepEnded();
    Status enqueued = reducer_->TakeError();
    // Check names the cause of a failure to enqueue.
    if (!enqueued.ok()) waited.Update(reducer_->Check());
    waited.Update(std::move(enqueued));
    return waited;
  }

  // Runs a pass that is not repeated work, because it waits for the host's sums.
  Status RunHostSums(const RankStep& step, const PinnedBlock& block, const InBatchItems& items,
                     const std::function<void()>& meanwhile) {
    hosts_sum_ = bool{step.on_gradients};
    if constexpr (kIsScaled<T>) state_.DeviceChanged();
    Status failed = absl::OkStatus();
    std::vector<double> sums;
    std::vector<ColumnRange> done;
    RankPass ranks = RankPassOf(step, block);
    SendItems(items, step, block, ranks);
    if (plan_.is_in_batch && step.gather) AddHostGather(step, ranks, failed);
    ranks.on_gradients = [&](size_t first, size_t count) { done.push_back({first, count}); };
    if (step.sum) {
      ranks.sum_statistics = [&](double* values, size_t count) {
        sums.resize(count);
        executor_->ToHost(sums.data(), values, count * sizeof(double));
        failed.Update(executor_->Synchronize());
        if (failed.ok()) failed.Update(step.sum(sums));
        executor_->ToDevice(values, sums.data(), count * sizeof(double));
        failed.Update(executor_->Synchronize());
      };
    }
    SIMURGH_CHECK(!next_rate_);
    EnqueueWork(ranks, block.rows);
    transfers_.End(block);
    step_slot_ = block.slot;
    gradients_.DeviceChanged();
    if (meanwhile) meanwhile();
    failed.Update(transfers_.AwaitReport(block));
    SIMURGH_RETURN_IF_ERROR(failed);
    if (!step.on_gradients) return absl::OkStatus();
    // The caller may change the gradients.
    gradients();
    SIMURGH_RETURN_IF_ERROR(std::exchange(error_, absl::OkStatus()));
    for (const ColumnRange& range : done) step.on_gradients(range.first, range.count);
    return absl::OkStatus();
  }

  // Lets the host gather items and sum their gradients. The arguments must outlive `ranks`.
  void AddHostGather(const RankStep& step, RankPass& ranks, Status& failed) {
    const auto fetch = [this, &failed](std::span<const std::byte> from) {
      std::vector<std::byte> bytes(from.size());
      executor_->ToHost(bytes.data(), from.data(), from.size());
      failed.Update(executor_->Synchronize());
      return bytes;
    };
    const auto send = [this, &failed](const std::vector<std::byte>& bytes, void* to) {
      executor_->ToDevice(to, bytes.data(), bytes.size());
      failed.Update(executor_->Synchronize());
    };
    ranks.gather = [&step, &failed, fetch, send](std::span<const std::byte> own, std::byte* all) {
      const std::vector<std::byte> bytes = fetch(own);
      std::vector<std::byte> gathered(own.size() * step.ranks);
      if (failed.ok()) failed.Update(step.gather(bytes, gathered));
      send(gathered, all);
    };
    ranks.sum_floats = [&step, &failed, fetch, send](std::span<float> values) {
      std::vector<std::byte> bytes = fetch(std::as_bytes(values));
      const std::span<float> sums(reinterpret_cast<float*>(bytes.data()), values.size());
      if (failed.ok()) failed.Update(step.sum_floats(sums));
      send(bytes, values.data());
    };
  }

  void CheckDense(const MatrixView<const float>& dense, size_t rows) const {
    SIMURGH_CHECK_EQ(dense.columns(), plan_.dense_width);
    if (plan_.dense_width > 0) SIMURGH_CHECK_EQ(dense.rows(), rows);
  }

  // Requires a block of blocks().
  static PinnedBlock& PinnedOf(BatchBlock& block) {
    auto* pinned = dynamic_cast<PinnedBlock*>(&block);
    SIMURGH_CHECK(pinned != nullptr);
    return *pinned;
  }

  size_t tasks() const { return plan_.top().output_width(); }

  // gathered: see InBatchRoom.
  Status Prepare(const PinnedBlock& block, size_t gathered = 0) {
    SIMURGH_RETURN_IF_ERROR(std::exchange(error_, absl::OkStatus()));
    executor_->MakeCurrent();
    SIMURGH_RETURN_IF_ERROR(room_.ReserveFor(block, gathered));
    SendMirrors();
    return absl::OkStatus();
  }

  static void TakeProbabilities(const PinnedBlock& block, std::span<float> probabilities) {
    std::copy_n(block.Out<float>(block.transfer.probabilities), probabilities.size(),
                probabilities.begin());
  }

  void SendMirrors() {
    if (gradients_.Send(*executor_)) sends_ = true;
    for (HostMirror* mirror : {&parameters_, &state_}) {
      if (!mirror->Send(*executor_)) continue;
      sends_ = true;
      copied_ = Copied::kNone;
    }
  }

  std::span<float> Look(HostMirror& mirror, bool written) const {
    executor_->MakeCurrent();
    Status status = absl::OkStatus();
    if (written && std::exchange(sends_, false)) status.Update(executor_->Synchronize());
    status.Update(mirror.Read(*executor_, written));
    if (!status.ok()) error_ = status;
    return mirror.values();
  }

  const ModelPlan plan_;
  const DenseNetworkOptions options_;
  const std::unique_ptr<Executor> executor_;
  const WireCodes codes_;
  PinnedBlocks<Executor> blocks_;
  Tensors<T> tensors_;
  Transfers<Executor, T> transfers_;
  BatchRoom<Executor, T> room_;
  Pass<Executor, T> pass_;
  Stepper<Executor, T> stepper_;
  DeviceMemory weights_ = NoMemory();
  DeviceMemory request_ = NoMemory();               // Pinned; a StepRequest per slot.
  DeviceMemory dropout_steps_ = NoMemory();         // Pinned; a DropoutStep() per slot.
  std::array<AlignedBuffer, kSlots> staged_items_;  // Pinned; see InBatchLayout.
  AlignedBuffer last_input_;                        // Pinned; of LastTowerInput().
  std::vector<float> last_vectors_;
  std::unique_ptr<RankReducer<Executor>> reducer_;  // Null: the caller sums.
  HostMirror parameters_;
  HostMirror gradients_;
  mutable HostMirror state_;
  mutable Status error_ = absl::OkStatus();  // Error of a call without a Status.
  mutable bool sends_ = false;               // A mirror may still be copied to the device.
  bool hosts_sum_ = false;                   // The caller sums the last gradients.
  Copied copied_ = Copied::kNone;
  std::optional<float> next_rate_;        // Learning rate of ApplyNext.
  const PinnedBlock* started_ = nullptr;  // The next batch, if its pass is enqueued.
  size_t step_rows_ = 0;                  // Samples in batch norm's statistics.
  size_t step_slot_ = 0;                  // The slot of the last pass.
  size_t step_items_ = 0;                 // Its items of all ranks, of in_batch_softmax.
  Step step_ = Step::kNone;
};

}  // namespace simurgh::cuda
