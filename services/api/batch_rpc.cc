#include "services/api/batch_rpc.h"

#include <algorithm>
#include <future>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "base/check.h"
#include "embedding/vector_codec.h"
#include "services/api/peer_clients.h"
#include "services/api/row_rpc.h"

namespace simurgh::api {
namespace {

flatbuffers::Offset<wire::BatchReference> Encode(flatbuffers::FlatBufferBuilder& builder,
                                                 const BatchReference& reference) {
  return wire::CreateBatchReference(builder, reference.worker_incarnation, reference.number);
}

StatusOr<VectorPrecision> DecodePrecision(const char* what, uint8_t precision) {
  if (precision > static_cast<uint8_t>(VectorPrecision::kInt8)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": precision: ", precision, " is unknown; use 0 to 3"));
  }
  return static_cast<VectorPrecision>(precision);
}

StatusOr<EmbeddingForm> DecodeForm(const char* what, uint8_t form) {
  if (form > static_cast<uint8_t>(EmbeddingForm::kRows)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": form: ", form, " is unknown; use 0 or 1"));
  }
  return static_cast<EmbeddingForm>(form);
}

}  // namespace

rpc::Outgoing<SubmitBatch::Request> Encode(const SubmitOptions& options,
                                           const std::shared_ptr<const EncodedBatch>& batch) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root =
      wire::CreateSubmitBatchRequest(builder, static_cast<uint8_t>(options.mode), options.run,
                                     options.rank, options.step, options.lookahead_steps);
  return {builder, root, {batch->plain_ids, batch}, {batch->codes, batch}};
}

StatusOr<SubmitOptions> Decode(const wire::SubmitBatchRequest& request) {
  SIMURGH_ASSIGN_OR_RETURN(const LookupMode mode, DecodeLookupMode("submit", request.mode()));
  if (request.lookahead_steps() < 1 || request.lookahead_steps() > SubmitOptions::kMaxLookahead) {
    return absl::InvalidArgumentError(absl::StrCat("submit: ", request.lookahead_steps(),
                                                   " lookahead steps are out of range; use 1 to ",
                                                   SubmitOptions::kMaxLookahead));
  }
  return SubmitOptions{.mode = mode,
                       .run = request.run(),
                       .rank = request.rank(),
                       .step = request.step(),
                       .lookahead_steps = request.lookahead_steps()};
}

StatusOr<rpc::Destinations<SubmitBatch::Request>> PlaceSubmit(
    const SubmitBatch::Request::Counts& counts, EncodedBatch& batch,
    const std::shared_ptr<void>& owner) {
  const auto [plain_ids, codes] = counts;
  if (plain_ids > kMaxBatchOccurrences || codes > kMaxBatchCodeBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("submit: a batch of ", plain_ids, " plain ids and ", codes,
                     " bytes of codes is too large; use at most ", kMaxBatchOccurrences, " and ",
                     kMaxBatchCodeBytes));
  }
  batch.plain_ids.resize(plain_ids);
  batch.codes.resize(codes);
  return rpc::Destinations<SubmitBatch::Request>{{batch.plain_ids, owner}, {batch.codes, owner}};
}

rpc::Outgoing<SubmitBatch::Response> Encode(const BatchReference& reference) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = Encode(builder, reference);
  return {builder, root};
}

BatchReference Decode(const wire::BatchReference& reference) {
  return {.worker_incarnation = reference.worker_incarnation(), .number = reference.number()};
}

rpc::Outgoing<PullBatch::Request> Encode(const PullBatchMessage& message) {
  flatbuffers::FlatBufferBuilder builder;
  const auto reference = Encode(builder, message.reference);
  const PullOptions& options = message.options;
  const auto step_id = Encode(builder, options.step_id);
  const auto root = wire::CreatePullBatchRequest(
      builder, reference, static_cast<uint8_t>(options.mode), step_id,
      options.needed.acknowledged_steps, static_cast<uint8_t>(message.precision),
      options.row_age_steps, static_cast<uint8_t>(message.form), options.needed.awaited_steps);
  return {builder, root};
}

rpc::Outgoing<PullBatch::Response> Encode(const PullAnswer& answer,
                                          rpc::SegmentSource<std::byte> embeddings) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = wire::CreatePullBatchResponse(builder, answer.row_age_steps);
  return {builder, root, std::move(embeddings), {answer.argmax.bytes, answer.argmax.owner}};
}

StatusOr<PullBatchMessage> Decode(const wire::PullBatchRequest& request) {
  SIMURGH_ASSIGN_OR_RETURN(const LookupMode mode, DecodeLookupMode("pull batch", request.mode()));
  SIMURGH_ASSIGN_OR_RETURN(const EmbeddingForm form, DecodeForm("pull batch", request.form()));
  SIMURGH_ASSIGN_OR_RETURN(const VectorPrecision precision,
                           DecodePrecision("pull batch", request.precision()));
  return PullBatchMessage{.reference = Decode(*request.reference()),
                          .options = {.mode = mode,
                                      .step_id = Decode(*request.step_id()),
                                      .needed = {.acknowledged_steps = request.acknowledged_steps(),
                                                 .awaited_steps = request.awaited_steps()},
                                      .row_age_steps = request.row_age_steps()},
                          .precision = precision,
                          .form = form};
}

rpc::Outgoing<PushBatch::Request> Encode(const PushBatchMessage& message,
                                         rpc::SegmentSource<std::byte> gradients,
                                         const PooledArgmax& argmax) {
  flatbuffers::FlatBufferBuilder builder;
  const auto reference = Encode(builder, message.reference);
  const auto step_id = Encode(builder, message.step_id);
  const auto rates = builder.CreateVector(message.learning_rates);
  const auto root = wire::CreatePushBatchRequest(builder, reference, step_id, rates,
                                                 static_cast<uint8_t>(message.precision),
                                                 message.scale, static_cast<uint8_t>(message.form));
  return {builder, root, std::move(gradients), {argmax.bytes, argmax.owner}};
}

StatusOr<PushBatchMessage> Decode(const wire::PushBatchRequest& request) {
  SIMURGH_ASSIGN_OR_RETURN(const VectorPrecision precision,
                           DecodePrecision("push batch", request.precision()));
  if (!std::isnormal(request.scale()) || request.scale() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "push batch: scale ", request.scale(), " is out of range; use a normal number above 0"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const EmbeddingForm form, DecodeForm("push batch", request.form()));
  if (form == EmbeddingForm::kRows &&
      (precision != VectorPrecision::kF32 || request.scale() != 1)) {
    return absl::InvalidArgumentError("push batch: gradients of rows are in f32, with scale 1");
  }
  return PushBatchMessage{
      .reference = Decode(*request.reference()),
      .step_id = Decode(*request.step_id()),
      .learning_rates = {request.learning_rates()->begin(), request.learning_rates()->end()},
      .precision = precision,
      .form = form,
      .scale = request.scale()};
}

}  // namespace simurgh::api

namespace simurgh {
namespace {

// How long an unreachable worker gets no new batches while another is reachable.
constexpr std::chrono::seconds kAvoidance{5};

// Maximum of idle memory that is kept for argmax.
constexpr size_t kIdleBytes = size_t{256} << 20;

// Receives embeddings in the buffer. max_argmax: in bytes.
auto DestinationsOf(const EmbeddingBuffer& buffer, size_t max_argmax, BufferPool& memory) {
  using Answer = api::PullBatch::Response;
  return [buffer, max_argmax, &memory](
             const Answer::Table&,
             const Answer::Counts& counts) -> StatusOr<rpc::Destinations<Answer>> {
    const auto [embeddings, argmax] = counts;
    if (embeddings != buffer.bytes.size()) {
      return absl::InternalError(
          absl::StrCat("pull: ", embeddings, " bytes of embeddings, expected ", buffer.bytes.size(),
                       "; use the same configuration for all daemons"));
    }
    if (argmax > max_argmax) {
      return absl::InternalError(
          absl::StrCat("pull: ", argmax, " bytes of argmax, the batch has at most ", max_argmax));
    }
    const auto room = memory.Lease(argmax);
    return rpc::Destinations<Answer>{{buffer.bytes, buffer.owner},
                                     {room->bytes().first(argmax), room}};
  };
}

}  // namespace

BatchClient::BatchClient(rpc::asio::any_io_executor executor,
                         std::vector<std::unique_ptr<PeerClients>> workers,
                         const ClusterConfig& config, const LearningRates& rates)
    : executor_(std::move(executor)),
      workers_(
          std::make_shared<const std::vector<std::unique_ptr<PeerClients>>>(std::move(workers))),
      call_timeout_(config.rpc.call_timeout),
      rates_(rates),
      layout_(LayoutOf(config)),
      memory_(kIdleBytes),
      traces_(std::random_device()()),
      avoid_until_(workers_->size()) {
  SIMURGH_CHECK(!workers_->empty());
}

uint32_t BatchClient::NextWorker(uint32_t rank) {
  const auto count = static_cast<uint32_t>(workers_->size());
  const auto next = [&] { return (rank + next_worker_++) % count; };
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t worker = next();
    if (IsReachable(worker)) return worker;
  }
  return next();
}

rpc::CallOptions BatchClient::OptionsFor(uint32_t worker, uint64_t trace,
                                         rpc::Clock::time_point deadline) {
  rpc::CallOptions options = api::Patient({deadline, NextSpan(trace)});
  const auto now = rpc::Clock::now();
  const bool others = std::ranges::any_of(avoid_until_, [now](auto until) { return until <= now; });
  if (!IsReachable(worker) && others) options.patience = {};
  return options;
}

Status BatchClient::AnnotateError(uint32_t worker, uint64_t trace, const Status& status) {
  if (absl::IsUnavailable(status)) avoid_until_[worker] = rpc::Clock::now() + kAvoidance;
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("embedding-worker ", worker, ", trace ",
                                       absl::Hex(trace, absl::kZeroPad16)));
}

size_t BatchClient::MaxArgmaxBytes(const EmbeddingBuffer& buffer) const {
  const size_t columns = layout_.max_columns();
  if (columns == 0) return 0;
  const size_t row_bytes = VectorCodec(buffer.precision, layout_.vector_dims()).row_bytes();
  return buffer.bytes.size() / row_bytes * columns * kMaxArgmaxBytes;
}

StatusOr<std::shared_ptr<const EncodedBatch>> BatchClient::Encode(const CompactBatch& batch) {
  SIMURGH_ASSIGN_OR_RETURN(EncodedBatch encoded, EncodeBatch(batch));
  return std::make_shared<const EncodedBatch>(std::move(encoded));
}

void BatchClient::Submit(SubmittedIds ids, const SubmitOptions& options,
                         std::function<void(StatusOr<BatchReference>)> done) {
  if (ids.encoded == nullptr) {
    auto encoded = Encode(*ids.batch);
    if (!encoded.ok()) return done(Annotate(encoded.status(), "submit"));
    ids.encoded = *std::move(encoded);
  }
  auto submit = [this, batch = std::move(ids.encoded), options,
                 deadline = Deadline()]() mutable -> rpc::awaitable<StatusOr<BatchReference>> {
    const uint32_t worker = NextWorker(options.rank);
    const uint64_t trace = traces_() | 1;  // Never 0.
    const auto client = workers_->at(worker)->dedicated();
    const auto response =
        co_await rpc::Call(*client, api::kSubmitBatch, api::Encode(options, std::move(batch)),
                           OptionsFor(worker, trace, deadline));
    if (!response.ok()) co_return AnnotateError(worker, trace, response.status());
    BatchReference reference = api::Decode(response->table());
    reference.worker = worker;
    reference.trace = trace;
    co_return reference;
  };
  rpc::asio::co_spawn(executor_, std::move(submit), CompleteWith(std::move(done)));
}

void BatchClient::Pull(BatchReference batch, const PullOptions& options, EmbeddingBuffer embeddings,
                       std::function<void(StatusOr<PullAnswer>)> done) {
  auto pull = [this, batch, options, embeddings = std::move(embeddings),
               deadline = Deadline()]() -> rpc::awaitable<StatusOr<PullAnswer>> {
    PeerClients& worker = *workers_->at(batch.worker);
    const auto client = options.needed.awaited_steps > 0 ? worker.dedicated() : worker.shared();
    auto request = api::Encode({.reference = batch,
                                .options = options,
                                .precision = embeddings.precision,
                                .form = embeddings.form});
    const auto response =
        co_await rpc::Call(*client, api::kPullBatch, std::move(request),
                           DestinationsOf(embeddings, MaxArgmaxBytes(embeddings), memory_),
                           OptionsFor(batch.worker, batch.trace, deadline));
    if (!response.ok()) co_return AnnotateError(batch.worker, batch.trace, response.status());
    co_return PullAnswer{.row_age_steps = response->table().row_age_steps(),
                         .argmax = {response->segment<"argmax">(), response->owner<"argmax">()}};
  };
  rpc::asio::co_spawn(executor_, std::move(pull), CompleteWith(std::move(done)));
}

void BatchClient::Push(BatchReference batch, StepId step_id, GradientBuffer gradients,
                       std::function<void(Status)> done) {
  auto push = [this, batch, step_id, gradients = std::move(gradients),
               rates = rates_.At(step_id.step),
               deadline = Deadline()]() mutable -> rpc::awaitable<Status> {
    const api::PushBatchMessage message{.reference = batch,
                                        .step_id = step_id,
                                        .learning_rates = std::move(rates),
                                        .precision = gradients.precision,
                                        .form = gradients.form,
                                        .scale = gradients.scale};
    // A shared connection suffices: BatchQueue sends a push that waits for other ranks only after
    // the pushes of earlier steps and all earlier pulls have completed, so it blocks no call they
    // need.
    const auto client = workers_->at(batch.worker)->shared();
    auto request =
        api::Encode(message, {gradients.bytes, std::move(gradients.owner)}, gradients.argmax);
    const auto response = co_await rpc::Call(*client, api::kPushBatch, std::move(request),
                                             OptionsFor(batch.worker, batch.trace, deadline));
    co_return AnnotateError(batch.worker, batch.trace, response.status());
  };
  rpc::asio::co_spawn(executor_, std::move(push), CompleteWith(std::move(done)));
}

void BatchClient::EndRun(const StepId& step_id, std::chrono::milliseconds timeout) {
  std::vector<std::future<void>> ends;
  for (const auto& worker : *workers_) {
    const auto end = [&worker, step_id,
                      deadline = rpc::Clock::now() + timeout]() -> rpc::awaitable<void> {
      const auto client = worker->separate();
      [[maybe_unused]] const auto ended =
          co_await rpc::Call(*client, api::kEndBatches, api::EncodeEndRun(step_id), {deadline});
    };
    ends.push_back(rpc::asio::co_spawn(executor_, end, rpc::asio::use_future));
  }
  for (const auto& end : ends) end.wait();
}

template <typename Method, typename Call>
StatusOr<SaveProgress> BatchClient::CallOne(const Method& method, const Call& call) {
  const auto one = [this, &method, &call]() -> rpc::awaitable<StatusOr<SaveProgress>> {
    Status problem;
    for (size_t i = 0; i < workers_->size(); ++i) {
      const auto client = (*workers_)[i]->shared();
      const auto response = co_await rpc::Call(*client, method, api::Encode(call), {Deadline()});
      if (response.ok()) co_return api::Decode(response->table());
      problem = Annotate(response.status(), absl::StrCat("embedding-worker ", i));
      if (!absl::IsUnavailable(problem) && !absl::IsDeadlineExceeded(problem)) break;
    }
    co_return problem;
  };
  return rpc::asio::co_spawn(executor_, one, rpc::asio::use_future).get();
}

StatusOr<SaveProgress> BatchClient::SaveRows(const SaveRowsCall& call) {
  return CallOne(api::kSaveModelRows, call);
}

StatusOr<SaveProgress> BatchClient::RestoreRows(const RestoreRowsCall& call) {
  return CallOne(api::kRestoreModelRows, call);
}

void BatchClient::StopAfter(std::chrono::milliseconds pause) {
  const auto stop = [executor = executor_, workers = workers_, pause]() -> rpc::awaitable<void> {
    rpc::asio::steady_timer timer(executor, pause);
    co_await timer.async_wait(rpc::asio::use_awaitable);
    for (const auto& worker : *workers) worker->Stop();
  };
  rpc::asio::co_spawn(executor_, stop, rpc::asio::detached);
}

}  // namespace simurgh
