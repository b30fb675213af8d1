#include "services/embedding_worker/embedding_worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"

#include "services/api/layout.h"

namespace simurgh {
namespace {

// Idle memory kept for the rows and gradients of coming batches.
constexpr size_t kIdleRowBytes = size_t{512} << 20;
// The same for the batches themselves.
constexpr size_t kIdleBatchBytes = size_t{256} << 20;

// Observes the time from its making to Stop.
class StageTimer {
 public:
  explicit StageTimer(Histogram& histogram) : histogram_(histogram) {}
  void Stop() { histogram_.Observe(std::chrono::steady_clock::now() - start_); }

 private:
  Histogram& histogram_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Of warnings about gradients that are not finite.
constexpr uint32_t kDroppedLines = 10;
constexpr std::chrono::seconds kDroppedInterval{10};

// Everything that a push refers to while it is under way.
struct PushState {
  std::shared_ptr<BufferedBatch> batch;
  std::shared_ptr<AlignedBuffer> row_gradients;
  std::vector<std::vector<float>> learning_rates;  // By server and group.
};

struct PullState {
  std::shared_ptr<const BufferedBatch> batch;
  std::shared_ptr<AlignedBuffer> rows;
};

Status CheckRates(const std::vector<float>& rates, size_t tables) {
  if (rates.size() != tables) {
    return absl::InvalidArgumentError(
        absl::StrCat("push: ", rates.size(), " learning rates for ", tables, " tables"));
  }
  for (size_t i = 0; i < rates.size(); ++i) {
    if (std::isfinite(rates[i]) && rates[i] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("push: the learning rate of table ", i, " is ", rates[i]));
  }
  return absl::OkStatus();
}

}  // namespace

EmbeddingWorker::EmbeddingWorker(const ClusterConfig& config, uint64_t epoch,
                                 rpc::asio::any_io_executor compute,
                                 std::vector<std::unique_ptr<RowServer>> servers,
                                 WorkerMetrics& metrics)
    : layout_(LayoutOf(config)),
      map_(MapOf(config)),
      pooling_(layout_),
      epoch_(epoch),
      compute_(std::move(compute)),
      servers_(std::move(servers)),
      metrics_(metrics),
      buffer_(config.embedding_worker.forward_buffer_batches,
              config.embedding_worker.forward_buffer_bytes, config.embedding_worker.batch_expiry),
      batches_(kIdleBatchBytes),
      rows_(kIdleRowBytes),
      dropped_log_(kDroppedLines, kDroppedInterval) {
  for (const FeatureConfig& feature : config.features) feature_names_.push_back(feature.name);
}

Status EmbeddingWorker::Prepare(BufferedBatch& batch, bool is_encoded) const {
  if (is_encoded) {
    SIMURGH_RETURN_IF_ERROR(DecodeBatch(batch.encoded, batch.decoded));
  }
  if (batch.batch().feature_count() != layout_.features.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch has ", batch.batch().feature_count(), " features, the cluster ",
                     layout_.features.size(), "; give all daemons the same configuration"));
  }
  SIMURGH_RETURN_IF_ERROR(CheckLists(batch.batch(), layout_));
  // Large memory that every batch needs for a moment: one for each compute thread.
  thread_local PlanScratch scratch;
  PlanBatch(batch.batch(), layout_, map_, scratch, batch.plan);
  return absl::OkStatus();
}

rpc::awaitable<Status> EmbeddingWorker::AwaitRoom(size_t bytes, rpc::Clock::time_point deadline) {
  const auto turn = waiting_.emplace(waiting_.end());
  Status status;
  while (turn != waiting_.begin() || !buffer_.HasRoom(bytes)) {
    turn->emplace(co_await rpc::asio::this_coro::executor, deadline);
    const bool woken = co_await (*turn)->Wait();
    if (woken) continue;
    status = absl::ResourceExhaustedError(
        absl::StrCat("submit: ", buffer_.Describe(),
                     "; no room in time: submit again later, or raise what is full"));
    break;
  }
  waiting_.erase(turn);
  if (!status.ok()) NoteBuffer();  // The next one may be smaller.
  co_return status;
}

void EmbeddingWorker::NoteBuffer() {
  metrics_.buffered_batches.Set(static_cast<double>(buffer_.size()));
  metrics_.buffered_bytes.Set(static_cast<double>(buffer_.bytes()));
  if (!waiting_.empty() && waiting_.front().has_value()) waiting_.front()->Wake();
}

rpc::awaitable<StatusOr<BatchReference>> EmbeddingWorker::Keep(std::shared_ptr<BufferedBatch> batch,
                                                               bool is_encoded,
                                                               rpc::Clock::time_point deadline) {
  StageTimer timer(metrics_.plan_seconds);
  const Status prepared = co_await rpc::RunOn(
      compute_, [this, batch, is_encoded] { return Prepare(*batch, is_encoded); });
  if (!prepared.ok()) co_return Annotate(prepared, "submit");
  timer.Stop();
  metrics_.occurrences.Add(batch->batch().occurrences.size());
  metrics_.unique_rows.Add(batch->plan.ids.size());
  SIMURGH_CO_RETURN_IF_ERROR(co_await AwaitRoom(batch->bytes(), deadline));
  const uint64_t number = buffer_.Add(std::move(batch), ForwardBuffer::Clock::now());
  NoteBuffer();
  co_return BatchReference{.worker_epoch = epoch_, .number = number};
}

rpc::awaitable<StatusOr<BatchReference>> EmbeddingWorker::Submit(
    std::shared_ptr<const CompactBatch> batch, rpc::Clock::time_point deadline) {
  auto buffered = batches_.Lease();
  buffered->lent = std::move(batch);
  return Keep(std::move(buffered), /*is_encoded=*/false, deadline);
}

rpc::awaitable<StatusOr<BatchReference>> EmbeddingWorker::SubmitEncoded(
    std::shared_ptr<BufferedBatch> batch, rpc::Clock::time_point deadline) {
  return Keep(std::move(batch), /*is_encoded=*/true, deadline);
}

StatusOr<std::shared_ptr<BufferedBatch>> EmbeddingWorker::Find(const BatchReference& reference) {
  if (reference.worker_epoch != epoch_) {
    return absl::NotFoundError(
        "the reference is from before this embedding worker's start; submit the batch again");
  }
  return buffer_.Find(reference.number, ForwardBuffer::Clock::now());
}

void EmbeddingWorker::Remove(const BatchReference& reference) {
  buffer_.Remove(reference.number);
  NoteBuffer();
}

StatusOr<size_t> EmbeddingWorker::BatchSize(const BatchReference& reference) {
  SIMURGH_ASSIGN_OR_RETURN(const auto batch, Find(reference));
  return size_t{batch->batch().batch_size};
}

std::shared_ptr<AlignedBuffer> EmbeddingWorker::LeaseMaxima(const BufferedBatch& batch) {
  if (pooling_.maxima_width() == 0) return nullptr;
  return rows_.Lease(batch.batch().batch_size * pooling_.maxima_width() * sizeof(uint32_t));
}

std::span<uint32_t> EmbeddingWorker::Maxima(const BufferedBatch& batch,
                                            const AlignedBuffer* buffer) const {
  if (buffer == nullptr) return {};
  return buffer->as<uint32_t>(batch.batch().batch_size * pooling_.maxima_width());
}

Status EmbeddingWorker::CheckSize(const BufferedBatch& batch, VectorPrecision precision,
                                  size_t bytes) const {
  const size_t expected = batch.batch().batch_size * pooling_.row_bytes(precision);
  if (bytes == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("batch: ", bytes,
                                                 " bytes of vectors, its samples have ", expected,
                                                 "; give all daemons the same configuration"));
}

void EmbeddingWorker::NoteDropped(const std::vector<size_t>& features,
                                  const TrainerPosition& position) {
  for (const size_t feature : features) {
    metrics_.non_finite_gradients[feature]->Add();
    const auto left_out = dropped_log_.Admit(LogLimiter::Clock::now());
    if (!left_out) continue;
    spdlog::warn(
        "step {} of rank {}: the gradient of feature '{}' holds NaN or infinity and is left out{}",
        position.step, position.rank, feature_names_[feature],
        *left_out == 0 ? std::string() : fmt::format(" ({} such lines before)", *left_out));
  }
}

template <typename Call>
rpc::awaitable<Status> EmbeddingWorker::OnServers(Histogram& seconds, const Call& call) {
  StageTimer timer(seconds);
  std::vector<rpc::awaitable<Status>> tasks;
  for (size_t server = 0; server < servers_.size(); ++server) tasks.push_back(call(server));
  const Status status = co_await rpc::WhenAll(std::move(tasks));
  timer.Stop();
  // To the trainer a lost server is another matter than a lost worker: its batch is still here.
  co_return absl::IsUnavailable(status) ? absl::AbortedError(status.message()) : status;
}

rpc::awaitable<StatusOr<std::shared_ptr<AlignedBuffer>>> EmbeddingWorker::PullRows(
    std::shared_ptr<const BufferedBatch> batch, PullPurpose purpose, TrainerPosition position,
    uint64_t acknowledged_steps, rpc::CallOptions options) {
  const auto state = std::make_shared<PullState>();
  state->batch = std::move(batch);
  const BatchPlan& plan = state->batch->plan;
  state->rows = rows_.Lease(plan.row_floats * sizeof(float));
  const std::span<float> rows = state->rows->as<float>(plan.row_floats);
  const auto pull = [&](size_t server) -> rpc::awaitable<Status> {
    const ServerShare& share = plan.servers[server];
    PullRowsCall call{
        .purpose = purpose,
        .position = position,
        .acknowledged_steps = acknowledged_steps,
        .groups = share.groups,
        .ids = std::span(plan.ids).subspan(share.first_id, share.id_count),
        .rows = std::as_writable_bytes(rows.subspan(share.first_float, share.float_count)),
        .owner = state};
    const auto report = co_await servers_[server]->Pull(
        std::move(call), {options.deadline, options.trace.Child(server)});
    co_return report.status();
  };
  SIMURGH_CO_RETURN_IF_ERROR(co_await OnServers(metrics_.pull_seconds, pull));
  co_return state->rows;
}

rpc::awaitable<Status> EmbeddingWorker::Pull(BatchReference reference, PullPurpose purpose,
                                             TrainerPosition position, uint64_t acknowledged_steps,
                                             EmbeddingTarget target, rpc::CallOptions options) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const auto batch, Find(reference));
  SIMURGH_CO_RETURN_IF_ERROR(CheckSize(*batch, target.precision, target.bytes.size()));
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const auto rows, co_await PullRows(batch, purpose, position, acknowledged_steps, options));
  const auto maxima = LeaseMaxima(*batch);
  StageTimer timer(metrics_.pool_seconds);
  co_await rpc::RunOn(compute_, [this, batch, rows, maxima, target = std::move(target)] {
    pooling_.Pool(*batch, rows->as<float>(batch->plan.row_floats), target,
                  Maxima(*batch, maxima.get()));
  });
  timer.Stop();
  batch->maxima = maxima;
  if (purpose == PullPurpose::kEvaluate) Remove(reference);
  co_return absl::OkStatus();
}

rpc::awaitable<Status> EmbeddingWorker::FindMaxima(std::shared_ptr<BufferedBatch> batch,
                                                   TrainerPosition position,
                                                   rpc::CallOptions options) {
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const auto rows,
      co_await PullRows(batch, PullPurpose::kEvaluate, position, /*acknowledged=*/0, options));
  const auto maxima = LeaseMaxima(*batch);
  const size_t bytes = batch->batch().batch_size * pooling_.row_bytes(VectorPrecision::kF32);
  const auto pooled = rows_.Lease(bytes);
  co_await rpc::RunOn(compute_, [this, batch, rows, maxima, pooled, bytes] {
    const EmbeddingTarget nobody(VectorPrecision::kF32, pooled->bytes().first(bytes), nullptr);
    pooling_.Pool(*batch, rows->as<float>(batch->plan.row_floats), nobody,
                  Maxima(*batch, maxima.get()));
  });
  batch->maxima = maxima;
  co_return absl::OkStatus();
}

rpc::awaitable<Status> EmbeddingWorker::Push(BatchReference reference, TrainerPosition position,
                                             std::vector<float> learning_rates,
                                             GradientSource gradients, rpc::CallOptions options) {
  SIMURGH_CO_RETURN_IF_ERROR(CheckRates(learning_rates, layout_.table_dims.size()));
  const auto state = std::make_shared<PushState>();
  SIMURGH_CO_ASSIGN_OR_RETURN(state->batch, Find(reference));
  SIMURGH_CO_RETURN_IF_ERROR(CheckSize(*state->batch, gradients.precision, gradients.bytes.size()));
  if (pooling_.maxima_width() > 0 && state->batch->maxima == nullptr) {
    SIMURGH_CO_RETURN_IF_ERROR(co_await FindMaxima(state->batch, position, options));
  }
  const BatchPlan& plan = state->batch->plan;
  state->row_gradients = rows_.Lease(plan.row_floats * sizeof(float));
  const std::span<float> row_gradients = state->row_gradients->as<float>(plan.row_floats);
  StageTimer timer(metrics_.unpool_seconds);
  const auto maxima = state->batch->maxima;
  const auto unpool = [this, state, gradients = std::move(gradients), row_gradients, maxima] {
    return pooling_.Unpool(*state->batch, gradients, Maxima(*state->batch, maxima.get()),
                           row_gradients);
  };
  NoteDropped(co_await rpc::RunOn(compute_, unpool), position);
  timer.Stop();

  for (const ServerShare& share : plan.servers) {
    std::vector<float>& rates = state->learning_rates.emplace_back();
    for (const RowGroup& group : share.groups) rates.push_back(learning_rates[group.table]);
  }
  const auto push = [&](size_t server) -> rpc::awaitable<Status> {
    const ServerShare& share = plan.servers[server];
    PushRowsCall call{
        .position = position,
        .groups = share.groups,
        .learning_rates = state->learning_rates[server],
        .ids = std::span(plan.ids).subspan(share.first_id, share.id_count),
        .gradients = std::as_bytes(row_gradients.subspan(share.first_float, share.float_count)),
        .owner = state};
    const auto report = co_await servers_[server]->Push(
        std::move(call), {options.deadline, options.trace.Child(server)});
    co_return report.status();
  };
  SIMURGH_CO_RETURN_IF_ERROR(co_await OnServers(metrics_.push_seconds, push));
  Remove(reference);
  co_return absl::OkStatus();
}

void EmbeddingWorker::ExpireBatches() {
  const size_t expired = buffer_.Expire(ForwardBuffer::Clock::now());
  if (expired == 0) return;
  metrics_.expired_batches.Add(expired);
  NoteBuffer();
  spdlog::warn("dropped {} batches that no nn-worker asked about for embedding_worker.batch_expiry",
               expired);
}

}  // namespace simurgh
