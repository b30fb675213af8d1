#include "services/embedding_worker/batch_methods.h"

#include <utility>

#include "services/api/batch_codec.h"
#include "services/api/methods.h"

namespace simurgh {
namespace {

using Reply = rpc::awaitable<StatusOr<rpc::OutgoingMessage>>;

// Servers get four fifths of what is left, so that the trainer hears which of them did not answer
// instead of giving up at the same moment.
rpc::Clock::time_point ServerDeadline(rpc::Clock::time_point deadline) {
  if (deadline == rpc::Clock::time_point::max()) return deadline;
  const auto now = rpc::Clock::now();
  return now + (deadline - now) * 4 / 5;
}

Reply HandleSubmit(rpc::Request request, EmbeddingWorker& worker) {
  SIMURGH_CO_ASSIGN_OR_RETURN(auto batch, api::DecodeSubmit(request.message));
  SIMURGH_CO_ASSIGN_OR_RETURN(const BatchReference reference,
                              co_await worker.Submit(std::move(batch)));
  rpc::OutgoingMessage response;
  response.metadata = api::Encode(reference);
  co_return response;
}

Reply HandlePull(rpc::Request request, EmbeddingWorker& worker, BufferPool& buffers) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const auto message, api::DecodePullBatch(request.message.metadata));
  SIMURGH_CO_ASSIGN_OR_RETURN(const size_t samples, worker.BatchSize(message.reference));
  const size_t floats = samples * worker.embedding_width();
  const auto buffer = buffers.Lease(floats * sizeof(float));
  const MatrixView<float> embeddings(buffer->as<float>(floats).data(), samples,
                                     worker.embedding_width());
  SIMURGH_CO_RETURN_IF_ERROR(co_await worker.Pull(
      message.reference, message.purpose, message.position, message.acknowledged_steps, embeddings,
      buffer, ServerDeadline(request.deadline)));
  rpc::OutgoingMessage response;
  response.segments.push_back({std::as_bytes(embeddings.flat()), buffer});
  co_return response;
}

Reply HandlePush(rpc::Request request, EmbeddingWorker& worker) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const auto message, api::DecodePushBatch(request.message.metadata));
  SIMURGH_CO_ASSIGN_OR_RETURN(const size_t samples, worker.BatchSize(message.reference));
  const rpc::ReceivedSegment& gradients = request.message.segments[0];
  const size_t width = worker.embedding_width();
  if (gradients.bytes.size() != samples * width * sizeof(float)) {
    co_return absl::InvalidArgumentError("push: the gradients do not have the batch's shape");
  }
  const MatrixView<const float> matrix(reinterpret_cast<const float*>(gradients.bytes.data()),
                                       samples, width);
  SIMURGH_CO_RETURN_IF_ERROR(co_await worker.Push(message.reference, message.position, matrix,
                                                  gradients.owner,
                                                  ServerDeadline(request.deadline)));
  co_return rpc::OutgoingMessage{};
}

// One segment of at most a batch's gradients, into the pool.
rpc::Placement PlaceGradients(BufferPool& buffers, size_t embedding_width) {
  const uint64_t limit = uint64_t{kMaxBatchSamples} * embedding_width * sizeof(float);
  return [&buffers, limit](
             std::span<const std::byte>,
             std::span<const uint64_t> lengths) -> StatusOr<std::vector<rpc::IncomingSegment>> {
    if (lengths.size() != 1 || lengths[0] > limit) {
      return absl::InvalidArgumentError(
          "push: expected one segment of gradients within a batch's size");
    }
    auto buffer = buffers.Lease(lengths[0]);
    const std::span<std::byte> bytes = buffer->bytes().first(lengths[0]);
    return std::vector<rpc::IncomingSegment>{{bytes, std::move(buffer)}};
  };
}

}  // namespace

void RegisterBatchMethods(rpc::Server& server, EmbeddingWorker& worker, BufferPool& buffers) {
  server.Register({.id = api::kSubmitBatch,
                   .placement = api::PlaceSubmit(),
                   .handle = [&worker](rpc::Request request) {
                     return HandleSubmit(std::move(request), worker);
                   }});
  server.Register({.id = api::kPullBatch,
                   .placement = rpc::NoSegments(),
                   .handle = [&worker, &buffers](rpc::Request request) {
                     return HandlePull(std::move(request), worker, buffers);
                   }});
  server.Register({.id = api::kPushBatch,
                   .placement = PlaceGradients(buffers, worker.embedding_width()),
                   .handle = [&worker](rpc::Request request) {
                     return HandlePush(std::move(request), worker);
                   }});
}

}  // namespace simurgh
