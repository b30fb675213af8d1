#include "services/api/batch_client.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/answer.h"
#include "services/api/batch_codec.h"
#include "services/api/methods.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// For errors.
std::string NameOf(uint32_t worker) { return absl::StrCat("embedding-worker ", worker); }

rpc::Placement IntoMatrix(MatrixView<float> matrix, std::shared_ptr<void> owner) {
  return [matrix, owner = std::move(owner)](
             std::span<const std::byte>,
             std::span<const uint64_t> lengths) -> StatusOr<std::vector<rpc::IncomingSegment>> {
    const std::span<std::byte> bytes = std::as_writable_bytes(matrix.flat());
    if (lengths.size() != 1 || lengths[0] != bytes.size()) {
      return absl::InternalError(absl::StrCat("pull: the embedding worker answered with ",
                                              lengths.size(), " segments, expected one of ",
                                              bytes.size(), " bytes"));
    }
    return std::vector<rpc::IncomingSegment>{{bytes, owner}};
  };
}

rpc::awaitable<StatusOr<BatchReference>> SubmitTo(rpc::Client& client, uint32_t worker,
                                                  std::shared_ptr<const CompactBatch> batch,
                                                  rpc::Clock::time_point deadline) {
  rpc::OutgoingMessage request = api::EncodeSubmit(std::move(batch));
  rpc::Placement placement = rpc::NoSegments();
  auto response =
      co_await client.Call(api::kSubmitBatch, std::move(request), std::move(placement), deadline);
  if (!response.ok()) co_return Annotate(response.status(), NameOf(worker));
  StatusOr<BatchReference> reference = api::DecodeReference(response->metadata);
  if (reference.ok()) reference->worker = worker;
  co_return reference;
}

rpc::awaitable<Status> CallTo(rpc::Client& client, uint32_t worker, uint32_t method,
                              rpc::OutgoingMessage request, rpc::Placement placement,
                              rpc::Clock::time_point deadline) {
  auto response = co_await client.Call(method, std::move(request), std::move(placement), deadline);
  co_return Annotate(response.status(), NameOf(worker));
}

}  // namespace

BatchClient::BatchClient(rpc::asio::any_io_executor executor,
                         std::vector<std::unique_ptr<rpc::Client>> clients,
                         std::chrono::milliseconds call_timeout)
    : executor_(std::move(executor)), clients_(std::move(clients)), call_timeout_(call_timeout) {
  SIMURGH_CHECK(!clients_.empty());
}

void BatchClient::Submit(std::shared_ptr<const CompactBatch> batch,
                         std::function<void(StatusOr<BatchReference>)> done) {
  const auto worker = static_cast<uint32_t>(next_worker_++ % clients_.size());
  rpc::asio::co_spawn(executor_, SubmitTo(*clients_[worker], worker, std::move(batch), Deadline()),
                      Answer(std::move(done)));
}

void BatchClient::Pull(BatchReference batch, PullPurpose purpose, TrainerPosition position,
                       uint64_t acknowledged_steps, MatrixView<float> embeddings,
                       std::shared_ptr<void> owner, std::function<void(Status)> done) {
  rpc::OutgoingMessage request;
  request.metadata =
      api::Encode(api::PullBatchMessage{batch, purpose, position, acknowledged_steps});
  rpc::asio::co_spawn(
      executor_,
      CallTo(*clients_.at(batch.worker), batch.worker, api::kPullBatch, std::move(request),
             IntoMatrix(embeddings, std::move(owner)), Deadline()),
      Answer(std::move(done)));
}

void BatchClient::Push(BatchReference batch, TrainerPosition position,
                       MatrixView<const float> gradients, std::shared_ptr<const void> owner,
                       std::function<void(Status)> done) {
  rpc::OutgoingMessage request;
  request.metadata = api::Encode(api::PushBatchMessage{batch, position});
  request.segments.push_back({std::as_bytes(gradients.flat()), std::move(owner)});
  rpc::asio::co_spawn(executor_,
                      CallTo(*clients_.at(batch.worker), batch.worker, api::kPushBatch,
                             std::move(request), rpc::NoSegments(), Deadline()),
                      Answer(std::move(done)));
}

void BatchClient::StopAfter(std::chrono::milliseconds pause) {
  const auto stop = [this, pause]() -> rpc::awaitable<void> {
    rpc::asio::steady_timer timer(executor_, pause);
    co_await timer.async_wait(rpc::asio::use_awaitable);
    for (const auto& client : clients_) client->Stop();
  };
  rpc::asio::co_spawn(executor_, stop, rpc::asio::detached);
}

}  // namespace simurgh
