#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/batch_rpc.h"
#include "services/api/peer_clients.h"
#include "services/api/reply.h"
#include "services/api/row_rpc.h"
#include "services/embedding_worker/embedding_worker.h"

namespace simurgh {
namespace {

template <typename Message>
rpc::CallOptions OptionsWithin(const rpc::RequestOf<Message>& request) {
  return {api::AnswerBefore(request.deadline()), request.trace()};
}

struct PlacedBatch {
  SubmitOptions options;
  std::shared_ptr<BufferedBatch> batch;  // Holds the segments.
};

Reply<api::SubmitBatch> HandleSubmit(rpc::RequestOf<api::SubmitBatch::Request> request,
                                     PlacedBatch& placed, EmbeddingWorker& worker) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const BatchReference reference,
                              co_await worker.SubmitEncoded(std::move(placed.batch), placed.options,
                                                            OptionsWithin(request)));
  co_return api::Encode(reference);
}

// Pools directly into the response's memory, which the trainer reads if the transport is shared
// memory.
Reply<api::PullBatch> HandlePull(rpc::RequestOf<api::PullBatch::Request> request,
                                 EmbeddingWorker& worker) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const auto message, api::Decode(request.table()));
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const size_t bytes, worker.VectorBytes(message.reference, message.form, message.precision));
  const rpc::SegmentBuffer room = request.Allocate(bytes);
  EmbeddingBuffer embeddings(message.precision, room.bytes, room.owner);
  embeddings.form = message.form;
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const PullAnswer answer,
      co_await worker.Pull(message.reference, message.options, embeddings, OptionsWithin(request)));
  co_return api::Encode(answer, {embeddings.bytes, embeddings.owner});
}

Reply<api::PushBatch> HandlePush(rpc::RequestOf<api::PushBatch::Request> request,
                                 api::PushBatchMessage& message, EmbeddingWorker& worker) {
  GradientBuffer gradients(message.precision, message.scale, request.segment<"gradients">(),
                           request.owner<"gradients">());
  gradients.form = message.form;
  gradients.argmax = {request.segment<"argmax">(), request.owner<"argmax">()};
  SIMURGH_CO_RETURN_IF_ERROR(co_await worker.Push(message.reference, message.step_id,
                                                  std::move(message.learning_rates),
                                                  std::move(gradients), OptionsWithin(request)));
  co_return rpc::Outgoing<api::PushBatch::Response>();
}

Reply<api::EndRun> HandleEnd(rpc::RequestOf<api::EndRun::Request> request,
                             EmbeddingWorker& worker) {
  SIMURGH_CO_RETURN_IF_ERROR(co_await worker.rows().EndRun(api::Decode(*request.table().step_id()),
                                                           OptionsWithin(request)));
  co_return rpc::Outgoing<api::EndRun::Response>();
}

// Save and restore: passes the call on to all servers.
template <typename Method, typename Pass>
Reply<Method> PassOn(rpc::RequestOf<typename Method::Request> request, EmbeddingWorker& worker,
                     Pass pass) {
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const SaveProgress progress,
      co_await (worker.rows().*pass)(api::Decode(request.table()), OptionsWithin(request)));
  co_return api::Encode(progress);
}

}  // namespace

void RegisterBatchMethods(rpc::Server& server, EmbeddingWorker& worker) {
  using SubmitPlaced = rpc::PlacedWith<api::SubmitBatch::Request, PlacedBatch>;
  const auto place_batch =
      [&worker](const api::wire::SubmitBatchRequest& request,
                const api::SubmitBatch::Request::Counts& counts) -> StatusOr<SubmitPlaced> {
    SIMURGH_ASSIGN_OR_RETURN(const SubmitOptions options, api::Decode(request));
    auto batch = worker.LeaseBatch();
    SIMURGH_ASSIGN_OR_RETURN(auto destinations, api::PlaceSubmit(counts, batch->encoded, batch));
    return SubmitPlaced{std::move(destinations), {options, std::move(batch)}};
  };
  rpc::Register(server, api::kSubmitBatch, place_batch, [&worker](auto request, auto& placed) {
    return HandleSubmit(std::move(request), placed, worker);
  });
  rpc::Register(server, api::kPullBatch,
                [&worker](auto request) { return HandlePull(std::move(request), worker); });
  // Over shared memory, the segments stay in the trainer's memory.
  using PushPlaced = rpc::PlacedWith<api::PushBatch::Request, api::PushBatchMessage>;
  const auto place_gradients =
      [&worker](const api::wire::PushBatchRequest& request,
                const api::PushBatch::Request::Counts& counts) -> StatusOr<PushPlaced> {
    SIMURGH_ASSIGN_OR_RETURN(api::PushBatchMessage message, api::Decode(request));
    const auto [gradients, argmax] = counts;
    if (gradients > kMaxBatchSamples * worker.row_bytes(message.precision) ||
        argmax > worker.max_argmax_bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("push: ", gradients, " bytes of gradients and ", argmax,
                       " of argmax exceed the largest batch; use the same configuration for all "
                       "daemons"));
    }
    const auto allocate = rpc::SegmentDestination<std::byte>::kAllocate;
    return PushPlaced{{allocate, allocate}, std::move(message)};
  };
  rpc::Register(server, api::kPushBatch, place_gradients, [&worker](auto request, auto& message) {
    return HandlePush(std::move(request), message, worker);
  });
  rpc::Register(server, api::kEndBatches,
                [&worker](auto request) { return HandleEnd(std::move(request), worker); });
  rpc::Register(server, api::kSaveModelRows, [&worker](auto request) {
    return PassOn<api::SaveRows>(std::move(request), worker, &RowExchange::SaveRows);
  });
  rpc::Register(server, api::kRestoreModelRows, [&worker](auto request) {
    return PassOn<api::RestoreRows>(std::move(request), worker, &RowExchange::RestoreRows);
  });
}

}  // namespace simurgh
