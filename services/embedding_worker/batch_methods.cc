#include "services/embedding_worker/batch_methods.h"

#include <utility>

#include "services/api/batch_codec.h"

namespace simurgh {
namespace {

template <typename Method>
using Reply = rpc::awaitable<StatusOr<rpc::Outgoing<typename Method::Response>>>;

// Servers, and waiting for room, get four fifths of what is left, so that the trainer hears what
// did not end in time instead of giving up at the same moment.
template <typename Message>
rpc::CallOptions OptionsWithin(const rpc::RequestOf<Message>& request) {
  const rpc::Clock::time_point deadline = request.deadline();
  if (deadline == rpc::Clock::time_point::max()) return {deadline, request.trace()};
  const auto now = rpc::Clock::now();
  return {now + (deadline - now) * 4 / 5, request.trace()};
}

Reply<api::SubmitBatch> HandleSubmit(rpc::RequestOf<api::SubmitBatch::Request> request,
                                     EmbeddingWorker& worker) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const SubmitOptions terms, api::Decode(request.table()));
  // What place_batch leased below, where the segments have landed.
  auto batch = std::static_pointer_cast<BufferedBatch>(
      std::const_pointer_cast<void>(request.owner<"codes">()));
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const BatchReference reference,
      co_await worker.SubmitEncoded(std::move(batch), terms, OptionsWithin(request).deadline));
  co_return api::Encode(reference);
}

// Embeddings are pooled where they are sent from: over shared memory that is what the trainer
// reads.
Reply<api::PullBatch> HandlePull(rpc::RequestOf<api::PullBatch::Request> request,
                                 EmbeddingWorker& worker) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const auto message, api::Decode(request.table()));
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const size_t bytes, worker.AnswerBytes(message.reference, message.form, message.precision));
  const rpc::SegmentBuffer room = request.Allocate(bytes);
  EmbeddingBuffer target(message.precision, room.bytes, room.owner);
  target.form = message.form;
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const PullAnswer answer,
      co_await worker.Pull(message.reference, message.terms, target, OptionsWithin(request)));
  co_return api::Encode(answer, {target.bytes, target.owner});
}

Reply<api::PushBatch> HandlePush(rpc::RequestOf<api::PushBatch::Request> request,
                                 EmbeddingWorker& worker) {
  SIMURGH_CO_ASSIGN_OR_RETURN(api::PushBatchMessage message, api::Decode(request.table()));
  GradientBuffer gradients(message.precision, message.scale, request.segment<"gradients">(),
                           request.owner<"gradients">());
  gradients.argmax = {request.segment<"argmax">(), request.owner<"argmax">()};
  SIMURGH_CO_RETURN_IF_ERROR(co_await worker.Push(message.reference, message.position,
                                                  std::move(message.learning_rates),
                                                  std::move(gradients), OptionsWithin(request)));
  co_return rpc::Outgoing<api::PushBatch::Response>();
}

// At most a batch's gradients and argmax; over shared memory they stay where the trainer has them.
auto PlaceGradients(const EmbeddingWorker& worker) {
  using Destinations = rpc::Destinations<api::PushBatch::Request>;
  return [&worker](const api::wire::PushBatchRequest& request,
                   const api::PushBatch::Request::Counts& counts) -> StatusOr<Destinations> {
    SIMURGH_ASSIGN_OR_RETURN(const auto message, api::Decode(request));
    const auto [gradients, argmax] = counts;
    if (gradients > kMaxBatchSamples * worker.row_bytes(message.precision) ||
        argmax > worker.max_argmax_bytes()) {
      return absl::InvalidArgumentError(
          "push: more gradients or argmax than the largest batch has");
    }
    const auto anywhere = rpc::SegmentDestination<std::byte>::kAllocate;
    return Destinations{anywhere, anywhere};
  };
}

}  // namespace

void RegisterBatchMethods(rpc::Server& server, EmbeddingWorker& worker) {
  const auto place_batch = [&worker](const api::wire::SubmitBatchRequest&,
                                     const api::SubmitBatch::Request::Counts& counts) {
    auto batch = worker.LeaseBatch();
    return api::PlaceSubmit(counts, batch->encoded, batch);
  };
  rpc::Register(server, api::kSubmitBatch, place_batch,
                [&worker](auto request) { return HandleSubmit(std::move(request), worker); });
  rpc::Register(server, api::kPullBatch,
                [&worker](auto request) { return HandlePull(std::move(request), worker); });
  rpc::Register(server, api::kPushBatch, PlaceGradients(worker),
                [&worker](auto request) { return HandlePush(std::move(request), worker); });
}

}  // namespace simurgh
