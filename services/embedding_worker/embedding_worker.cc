#include "services/embedding_worker/embedding_worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "embedding/argmax_wire.h"
#include "embedding/batch_plan.h"
#include "embedding/bucket_map.h"
#include "services/embedding_worker/worker_metrics.h"

namespace simurgh {
namespace {

// Idle memory kept for later batches.
constexpr size_t kIdleBatchBytes = size_t{256} << 20;

Status CheckRates(const std::vector<float>& rates, size_t tables) {
  if (rates.size() != tables) {
    return absl::InvalidArgumentError(
        absl::StrCat("push: ", rates.size(), " learning rates were given for ", tables,
                     " tables; use the same configuration for all daemons"));
  }
  for (size_t i = 0; i < rates.size(); ++i) {
    if (std::isfinite(rates[i]) && rates[i] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("push: learning rate ", rates[i], " of table ", i,
                     " is out of range; use a finite rate of at least 0"));
  }
  return absl::OkStatus();
}

Status CheckSize(size_t bytes, size_t expected) {
  if (bytes == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("batch: ", bytes, " bytes of vectors were given, expected ", expected,
                   "; use the same configuration for all daemons"));
}

}  // namespace

EmbeddingWorker::EmbeddingWorker(const ClusterConfig& config, uint64_t incarnation,
                                 rpc::asio::any_io_executor compute,
                                 std::vector<std::unique_ptr<RowPort>> servers,
                                 WorkerMetrics& metrics)
    : layout_(LayoutOf(config)),
      map_(MapOf(config)),
      pooling_(layout_),
      incarnation_(incarnation),
      ranks_(std::max<size_t>(config.nn_worker.instances.size(), 1)),
      compute_(std::move(compute)),
      metrics_(metrics),
      buffer_(config.embedding_worker.forward_buffer_batches,
              config.embedding_worker.forward_buffer_bytes, config.embedding_worker.batch_expiry,
              [this] { NoteBuffer(); }),
      batches_(kIdleBatchBytes),
      rows_(config, compute_, std::move(servers), metrics) {
  for (const FeatureConfig& feature : config.features) feature_names_.push_back(feature.name);
  for (const auto precision : {VectorPrecision::kF32, VectorPrecision::kBf16, VectorPrecision::kF16,
                               VectorPrecision::kInt8}) {
    row_codecs_.emplace_back(precision, layout_.rows());
  }
}

// A submit in the queue for space. The destructor wakes the others, which may be smaller.
class EmbeddingWorker::WaitTicket {
 public:
  WaitTicket(EmbeddingWorker& worker, const SubmitOptions& options, size_t bytes)
      : worker_(worker),
        options_(options),
        bytes_(bytes),
        entry_(worker.waiting_.insert(worker.waiting_.end(), this)) {}
  WaitTicket(const WaitTicket&) = delete;
  WaitTicket& operator=(const WaitTicket&) = delete;
  ~WaitTicket() {
    worker_.waiting_.erase(entry_);
    worker_.NoteBuffer();
  }

  bool is_admitted() const {
    const ForwardBuffer& buffer = worker_.buffer_;
    return (worker_.waiting_.front() == this && buffer.HasRoom(bytes_)) ||
           buffer.IsExemptFromLimit(options_);
  }

  void WakeIfAdmitted() {
    if (waiter_.has_value() && is_admitted()) waiter_->Wake();
  }

  // Waits for a change. Returns false at the deadline or on cancellation.
  [[nodiscard]] rpc::awaitable<bool> Wait(rpc::Clock::time_point deadline) {
    waiter_.emplace(co_await rpc::asio::this_coro::executor, deadline);
    co_return co_await waiter_->Wait();
  }

 private:
  EmbeddingWorker& worker_;
  const SubmitOptions options_;
  const size_t bytes_;
  const std::list<WaitTicket*>::iterator entry_;
  std::optional<rpc::Waiter> waiter_;
};

Status EmbeddingWorker::DecodeAndPlan(BufferedBatch& batch) const {
  const size_t features = layout_.features.size();
  if (batch.lent == nullptr) {
    SIMURGH_RETURN_IF_ERROR(DecodeBatch(batch.encoded, batch.decoded, features));
  } else if (batch.lent->feature_count() != features) {
    return absl::InvalidArgumentError(absl::StrCat("the batch has ", batch.lent->feature_count(),
                                                   " features, the cluster has ", features,
                                                   "; use the same configuration for all daemons"));
  }
  SIMURGH_RETURN_IF_ERROR(CheckLists(batch.batch(), layout_));
  // The scratch is large, so the batches of a compute thread share it.
  thread_local PlanScratch scratch;
  PlanBatch(batch.batch(), layout_, map_, scratch, batch.plan);
  return absl::OkStatus();
}

rpc::awaitable<StatusOr<ForwardBuffer::Place>> EmbeddingWorker::ReserveSpace(
    SubmitOptions options, size_t bytes, rpc::Clock::time_point deadline) {
  WaitTicket ticket(*this, options, bytes);
  while (!ticket.is_admitted()) {
    if (co_await ticket.Wait(deadline)) continue;
    co_return absl::ResourceExhaustedError(
        absl::StrCat("submit: ", buffer_.Describe(),
                     " and is still full at the deadline; submit again, or raise the limit"));
  }
  co_return buffer_.Reserve(options, bytes);
}

void EmbeddingWorker::NoteBuffer() {
  metrics_.buffered_batches.Set(static_cast<double>(buffer_.size()));
  metrics_.buffered_bytes.Set(static_cast<double>(buffer_.bytes()));
  for (WaitTicket* waiting : waiting_) waiting->WakeIfAdmitted();
}

rpc::awaitable<StatusOr<BatchReference>> EmbeddingWorker::Submit(
    std::shared_ptr<const CompactBatch> batch, SubmitOptions options,
    rpc::CallOptions call_options) {
  auto buffered = batches_.Lease();
  buffered->lent = std::move(batch);
  return SubmitEncoded(std::move(buffered), options, call_options);
}

rpc::awaitable<StatusOr<BatchReference>> EmbeddingWorker::SubmitEncoded(
    std::shared_ptr<BufferedBatch> batch, SubmitOptions options, rpc::CallOptions call_options) {
  if (options.rank >= ranks_) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("submit: rank ", options.rank, " is out of range, the cluster has ", ranks_,
                     " ranks; use the same configuration for all daemons"));
  }
  const StatusOr<size_t> bytes = batch->MaxBytes(layout_.features.size());
  if (!bytes.ok()) co_return Annotate(bytes.status(), "submit");
  SIMURGH_CO_ASSIGN_OR_RETURN(ForwardBuffer::Place place,
                              co_await ReserveSpace(options, *bytes, call_options.deadline));
  StageTimer timer(metrics_.plan_seconds, "plan", call_options.trace);
  const Status prepared =
      co_await rpc::RunOn(compute_, [this, batch] { return DecodeAndPlan(*batch); });
  if (!prepared.ok()) co_return Annotate(prepared, "submit");
  timer.Stop();
  co_await rows_.ReadAhead(batch, call_options);
  const uint64_t number = place.Fill(std::move(batch), ForwardBuffer::Clock::now());
  co_return BatchReference{.worker_incarnation = incarnation_, .number = number};
}

StatusOr<std::shared_ptr<BufferedBatch>> EmbeddingWorker::Find(const BatchReference& reference) {
  if (reference.worker_incarnation != incarnation_) {
    return absl::NotFoundError(
        "the embedding worker has restarted since the submit; submit the batch again");
  }
  return buffer_.Find(reference.number, ForwardBuffer::Clock::now());
}

StatusOr<size_t> EmbeddingWorker::VectorBytes(const BatchReference& reference, EmbeddingForm form,
                                              VectorPrecision precision) {
  SIMURGH_ASSIGN_OR_RETURN(const auto batch, Find(reference));
  if (form == EmbeddingForm::kRows) return RowCodecOf(precision).bytes(batch->batch());
  return batch->batch().batch_size * pooling_.row_bytes(precision);
}

bool EmbeddingWorker::Finish(const BatchReference& reference, const BufferedBatch& batch) {
  if (!buffer_.Remove(reference.number)) return false;
  metrics_.occurrences.Add(batch.batch().occurrences.size());
  metrics_.unique_rows.Add(batch.plan.ids.size());
  return true;
}

rpc::awaitable<StatusOr<PullAnswer>> EmbeddingWorker::Pull(BatchReference reference,
                                                           PullOptions options,
                                                           EmbeddingBuffer embeddings,
                                                           rpc::CallOptions call_options) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const auto batch, Find(reference));
  SIMURGH_CO_ASSIGN_OR_RETURN(const size_t expected,
                              VectorBytes(reference, embeddings.form, embeddings.precision));
  SIMURGH_CO_RETURN_IF_ERROR(CheckSize(embeddings.bytes.size(), expected));
  SIMURGH_CO_ASSIGN_OR_RETURN(const RowExchange::Rows rows,
                              co_await rows_.Pull(batch, options, call_options));
  StageTimer timer(metrics_.pool_seconds, "pool", call_options.trace);
  PullAnswer answer{.row_age_steps = rows.age_steps};
  const bool training = options.mode == LookupMode::kTrain;
  const auto pool = [this, batch, rows, embeddings = std::move(embeddings), training] {
    return PoolRows(*batch, *rows.floats, embeddings, /*with_argmax=*/training);
  };
  answer.argmax = co_await rpc::RunOn(compute_, pool);
  timer.Stop();
  if (!training) Finish(reference, *batch);
  co_return answer;
}

PooledArgmax EmbeddingWorker::PoolRows(const BufferedBatch& batch, const AlignedBuffer& rows,
                                       const EmbeddingBuffer& embeddings, bool with_argmax) {
  if (embeddings.form == EmbeddingForm::kRows) {
    RowCodecOf(embeddings.precision)
        .Encode(batch.batch(), rows.as<float>(batch.plan.row_floats), batch.plan.row_positions,
                embeddings.bytes);
    return {};
  }
  const size_t count = with_argmax ? layout_.max_columns() * batch.batch().batch_size : 0;
  const auto argmax = rows_.Lease(count * sizeof(uint32_t));
  pooling_.Pool(batch, rows.as<float>(batch.plan.row_floats), embeddings,
                argmax->as<uint32_t>(count));
  if (count == 0) return {};
  const size_t bytes = ArgmaxBytes(layout_, batch.batch());
  auto encoded = rows_.Lease(bytes);
  EncodeArgmax(layout_, batch.batch(), argmax->as<uint32_t>(count), encoded->bytes());
  return {encoded->bytes().first(bytes), std::move(encoded)};
}

StatusOr<std::vector<size_t>> EmbeddingWorker::UnpoolRows(const BufferedBatch& batch,
                                                          const GradientBuffer& gradients,
                                                          const AlignedBuffer& row_gradients) {
  const bool are_rows = gradients.form == EmbeddingForm::kRows;
  const size_t count = are_rows ? 0 : layout_.max_columns() * batch.batch().batch_size;
  const auto argmax = rows_.Lease(count * sizeof(uint32_t));
  if (!are_rows) {
    SIMURGH_RETURN_IF_ERROR(
        DecodeArgmax(layout_, batch.batch(), gradients.argmax.bytes, argmax->as<uint32_t>(count)));
  }
  return pooling_.Unpool(batch, gradients, argmax->as<uint32_t>(count),
                         row_gradients.as<float>(batch.plan.row_floats));
}

rpc::awaitable<Status> EmbeddingWorker::Push(BatchReference reference, StepId step_id,
                                             std::vector<float> learning_rates,
                                             GradientBuffer gradients, rpc::CallOptions options) {
  SIMURGH_CO_RETURN_IF_ERROR(CheckRates(learning_rates, layout_.table_dims.size()));
  SIMURGH_CO_ASSIGN_OR_RETURN(const std::shared_ptr<BufferedBatch> batch, Find(reference));
  SIMURGH_CO_ASSIGN_OR_RETURN(const size_t expected,
                              VectorBytes(reference, gradients.form, gradients.precision));
  SIMURGH_CO_RETURN_IF_ERROR(CheckSize(gradients.bytes.size(), expected));
  const auto row_gradients = rows_.Lease(batch->plan.row_floats * sizeof(float));
  StageTimer timer(metrics_.unpool_seconds, "unpool", options.trace);
  const auto unpool = [this, batch, gradients = std::move(gradients), row_gradients] {
    return UnpoolRows(*batch, gradients, *row_gradients);
  };
  SIMURGH_CO_ASSIGN_OR_RETURN(const auto dropped, co_await rpc::RunOn(compute_, unpool));
  timer.Stop();
  SIMURGH_CO_RETURN_IF_ERROR(
      co_await rows_.Push(batch, step_id, std::move(learning_rates), row_gradients, options));
  if (!Finish(reference, *batch)) co_return absl::OkStatus();
  for (const size_t feature : dropped) {
    metrics_.non_finite_gradients[feature]->Add();
    const auto suppressed = dropped_log_.Admit(LogLimiter::Clock::now());
    if (!suppressed) continue;
    spdlog::warn(
        "dropped a gradient that is not finite or overflows: step={} rank={} feature={} "
        "suppressed={}",
        step_id.step, step_id.rank, feature_names_[feature], *suppressed);
  }
  co_return absl::OkStatus();
}

void EmbeddingWorker::ExpireBatches() {
  const size_t expired = buffer_.Expire(ForwardBuffer::Clock::now());
  if (expired == 0) return;
  metrics_.expired_batches.Add(expired);
  spdlog::warn("dropped batches that were unused for embedding_worker.batch_expiry: batches={}",
               expired);
  NoteBuffer();  // Last: who sees the buffer empty reads the count and the log.
}

}  // namespace simurgh
