#include "services/embedding_worker/embedding_worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"

#include "services/api/layout.h"
#include "simurgh/feature/pooling.h"

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

std::span<uint32_t> Maxima(const AlignedBuffer* buffer, size_t count) {
  return buffer == nullptr ? std::span<uint32_t>() : buffer->as<uint32_t>(count);
}

size_t MaximaWidth(const BatchLayout& layout) {
  size_t width = 0;
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (layout.features[f].pooling.kind == Pooling::kMax) width += layout.dim(f);
  }
  return width;
}

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
      embedding_width_(layout_.embedding_width()),
      maxima_width_(MaximaWidth(layout_)),
      epoch_(epoch),
      compute_(std::move(compute)),
      servers_(std::move(servers)),
      metrics_(metrics),
      buffer_(config.embedding_worker.forward_buffer_batches,
              config.embedding_worker.forward_buffer_bytes, config.embedding_worker.batch_expiry),
      batches_(kIdleBatchBytes),
      rows_(kIdleRowBytes) {}

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

PoolingInput EmbeddingWorker::InputOf(const BufferedBatch& batch, size_t feature) const {
  const FeatureView view = batch.batch().feature(feature);
  return {
      .rule = layout_.features[feature].pooling,
      .feature = view,
      .dim = layout_.dim(feature),
      .row_positions = std::span(batch.plan.row_positions).subspan(view.first_id, view.ids.size())};
}

std::shared_ptr<AlignedBuffer> EmbeddingWorker::LeaseMaxima(const BufferedBatch& batch) {
  if (maxima_width_ == 0) return nullptr;
  return rows_.Lease(batch.batch().batch_size * maxima_width_ * sizeof(uint32_t));
}

void EmbeddingWorker::PoolAll(const BufferedBatch& batch, std::span<const float> rows,
                              MatrixView<float> embeddings, std::span<uint32_t> maxima) const {
  for (size_t f = 0; f < layout_.features.size(); ++f) {
    const PoolingInput input = InputOf(batch, f);
    const size_t own = input.rule.kind == Pooling::kMax ? embeddings.rows() * input.dim : 0;
    Pool(input, rows, embeddings.Columns(layout_.features[f].first_column, layout_.width(f)),
         maxima.first(own));
    maxima = maxima.subspan(own);
  }
}

void EmbeddingWorker::UnpoolAll(const BufferedBatch& batch, MatrixView<const float> gradients,
                                std::span<const uint32_t> maxima, std::span<float> row_gradients) {
  std::ranges::fill(row_gradients, 0.0F);
  for (size_t f = 0; f < layout_.features.size(); ++f) {
    const PoolingInput input = InputOf(batch, f);
    const size_t own = input.rule.kind == Pooling::kMax ? gradients.rows() * input.dim : 0;
    const auto block = gradients.Columns(layout_.features[f].first_column, layout_.width(f));
    if (AllFinite(block)) {
      Unpool(input, block, maxima.first(own), row_gradients);
    } else {
      metrics_.non_finite_gradients[f]->Add();
    }
    maxima = maxima.subspan(own);
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
                                             MatrixView<float> embeddings,
                                             std::shared_ptr<void> owner,
                                             rpc::CallOptions options) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const auto batch, Find(reference));
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const auto rows, co_await PullRows(batch, purpose, position, acknowledged_steps, options));
  const auto maxima = LeaseMaxima(*batch);
  StageTimer timer(metrics_.pool_seconds);
  co_await rpc::RunOn(compute_, [this, batch, rows, maxima, embeddings, owner] {
    PoolAll(*batch, rows->as<float>(batch->plan.row_floats), embeddings,
            Maxima(maxima.get(), embeddings.rows() * maxima_width_));
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
  const size_t samples = batch->batch().batch_size;
  const auto pooled = rows_.Lease(samples * embedding_width_ * sizeof(float));
  co_await rpc::RunOn(compute_, [this, batch, rows, maxima, pooled, samples] {
    const auto floats = pooled->as<float>(samples * embedding_width_);
    PoolAll(*batch, rows->as<float>(batch->plan.row_floats),
            {floats.data(), samples, embedding_width_},
            Maxima(maxima.get(), samples * maxima_width_));
  });
  batch->maxima = maxima;
  co_return absl::OkStatus();
}

rpc::awaitable<Status> EmbeddingWorker::Push(BatchReference reference, TrainerPosition position,
                                             std::vector<float> learning_rates,
                                             MatrixView<const float> gradients,
                                             std::shared_ptr<const void> owner,
                                             rpc::CallOptions options) {
  SIMURGH_CO_RETURN_IF_ERROR(CheckRates(learning_rates, layout_.table_dims.size()));
  const auto state = std::make_shared<PushState>();
  SIMURGH_CO_ASSIGN_OR_RETURN(state->batch, Find(reference));
  if (maxima_width_ > 0 && state->batch->maxima == nullptr) {
    SIMURGH_CO_RETURN_IF_ERROR(co_await FindMaxima(state->batch, position, options));
  }
  const BatchPlan& plan = state->batch->plan;
  state->row_gradients = rows_.Lease(plan.row_floats * sizeof(float));
  const std::span<float> row_gradients = state->row_gradients->as<float>(plan.row_floats);
  StageTimer timer(metrics_.unpool_seconds);
  const auto maxima = state->batch->maxima;
  co_await rpc::RunOn(compute_, [this, state, gradients, owner, row_gradients, maxima] {
    UnpoolAll(*state->batch, gradients, Maxima(maxima.get(), gradients.rows() * maxima_width_),
              row_gradients);
  });
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
