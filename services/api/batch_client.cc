#include "services/api/batch_client.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/answer.h"
#include "services/api/patience.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// How long a worker that could not be reached gets no new batches, if others do.
constexpr std::chrono::seconds kAvoidance{5};

// Where a pull's answer goes: embeddings into the target, argmax into memory of this side.
auto PlacesOf(const EmbeddingBuffer& target, VectorWire& wire) {
  using Answer = api::PullBatch::Response;
  return [target, &wire](const Answer::Table&,
                         const Answer::Counts& counts) -> StatusOr<rpc::Destinations<Answer>> {
    const auto [embeddings, argmax] = counts;
    if (embeddings != target.bytes.size()) {
      return absl::InternalError(
          absl::StrCat("pull: ", embeddings, " bytes of embeddings, not ", target.bytes.size()));
    }
    SIMURGH_ASSIGN_OR_RETURN(const auto room, wire.RoomForArgmax(target, argmax));
    return rpc::Destinations<Answer>{{target.bytes, target.owner},
                                     {room->bytes().first(argmax), room}};
  };
}

}  // namespace

BatchClient::BatchClient(rpc::asio::any_io_executor executor, rpc::asio::any_io_executor encoder,
                         std::vector<std::unique_ptr<PeerClients>> workers,
                         std::chrono::milliseconds call_timeout, const LearningRates& rates,
                         VectorWire& wire)
    : executor_(std::move(executor)),
      encoder_(std::move(encoder)),
      workers_(
          std::make_shared<const std::vector<std::unique_ptr<PeerClients>>>(std::move(workers))),
      call_timeout_(call_timeout),
      rates_(rates),
      wire_(wire),
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

rpc::awaitable<StatusOr<BatchReference>> BatchClient::SubmitToNext(
    std::shared_ptr<const CompactBatch> batch, SubmitOptions terms,
    rpc::Clock::time_point deadline) {
  auto encoded =
      co_await rpc::RunOn(encoder_, [batch = std::move(batch)] { return EncodeBatch(*batch); });
  if (!encoded.ok()) co_return Annotate(encoded.status(), "submit");
  const uint32_t worker = NextWorker(terms.rank);
  const uint64_t trace = traces_() | 1;  // Never 0.
  const auto client = workers_->at(worker)->own();
  auto request = api::Encode(terms, std::make_shared<const EncodedBatch>(*std::move(encoded)));
  const auto response = co_await rpc::Call(*client, api::kSubmitBatch, std::move(request),
                                           OptionsFor(worker, trace, deadline));
  if (!response.ok()) co_return AnnotateError(worker, trace, response.status());
  BatchReference reference = api::Decode(response->table());
  reference.worker = worker;
  reference.trace = trace;
  co_return reference;
}

rpc::awaitable<StatusOr<PullAnswer>> BatchClient::SendPull(api::PullBatchMessage message,
                                                           EmbeddingBuffer wanted,
                                                           rpc::Clock::time_point deadline) {
  const uint32_t worker = message.reference.worker;
  const uint64_t trace = message.reference.trace;
  const EmbeddingBuffer target = wire_.TargetFor(wanted);
  message.form = target.form;
  message.precision = target.precision;
  const auto client = workers_->at(worker)->shared();
  auto request = api::Encode(message);
  const auto response =
      co_await rpc::Call(*client, api::kPullBatch, std::move(request), PlacesOf(target, wire_),
                         OptionsFor(worker, trace, deadline));
  if (!response.ok()) co_return AnnotateError(worker, trace, response.status());
  if (wire_.decodes(wanted)) {
    co_await rpc::RunOn(encoder_, [this, target, wanted] { wire_.Decode(target, wanted); });
  }
  co_return PullAnswer{.row_age_steps = response->table().row_age_steps(),
                       .argmax = {response->segment<"argmax">(), response->owner<"argmax">()}};
}

rpc::awaitable<Status> BatchClient::SendPush(api::PushBatchMessage message, GradientBuffer given,
                                             rpc::Clock::time_point deadline) {
  // Where there is nothing to do, not by way of another thread.
  if (wire_.encodes(given)) {
    given = co_await rpc::RunOn(encoder_, [this, given, position = message.position] {
      return wire_.Encode(given, position);
    });
  }
  message.precision = given.precision;
  message.scale = given.scale;
  const uint32_t worker = message.reference.worker;
  const uint64_t trace = message.reference.trace;
  // Nothing that other ranks wait for comes behind it on this connection: where ranks wait for one
  // another, a push leaves once those of earlier steps have ended and the pulls before it are here
  // (BatchQueue).
  const auto client = workers_->at(worker)->shared();
  auto request = api::Encode(message, {given.bytes, std::move(given.owner)}, given.argmax);
  const auto response = co_await rpc::Call(*client, api::kPushBatch, std::move(request),
                                           OptionsFor(worker, trace, deadline));
  co_return AnnotateError(worker, trace, response.status());
}

void BatchClient::Submit(std::shared_ptr<const CompactBatch> batch, const SubmitOptions& terms,
                         std::function<void(StatusOr<BatchReference>)> done) {
  rpc::asio::co_spawn(executor_, SubmitToNext(std::move(batch), terms, Deadline()),
                      CompleteWith(std::move(done)));
}

void BatchClient::Pull(BatchReference batch, const PullOptions& terms, EmbeddingBuffer embeddings,
                       std::function<void(StatusOr<PullAnswer>)> done) {
  const api::PullBatchMessage message{.reference = batch, .terms = terms};
  rpc::asio::co_spawn(executor_, SendPull(message, std::move(embeddings), Deadline()),
                      CompleteWith(std::move(done)));
}

void BatchClient::Push(BatchReference batch, StepId position, GradientBuffer gradients,
                       std::function<void(Status)> done) {
  api::PushBatchMessage message{
      .reference = batch, .position = position, .learning_rates = rates_.At(position.step)};
  rpc::asio::co_spawn(executor_, SendPush(std::move(message), std::move(gradients), Deadline()),
                      CompleteWith(std::move(done)));
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
