#include "services/api/batch_client.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/answer.h"
#include "services/api/batch_codec.h"
#include "services/api/methods.h"
#include "services/api/patience.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// How long a worker that could not be reached gets no new batches, if others do.
constexpr std::chrono::seconds kAvoidance{5};

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

}  // namespace

BatchClient::BatchClient(rpc::asio::any_io_executor executor,
                         std::vector<std::unique_ptr<rpc::Client>> clients,
                         std::chrono::milliseconds call_timeout)
    : executor_(std::move(executor)),
      clients_(
          std::make_shared<const std::vector<std::unique_ptr<rpc::Client>>>(std::move(clients))),
      call_timeout_(call_timeout),
      avoid_until_(clients_->size()) {
  SIMURGH_CHECK(!clients_->empty());
}

uint32_t BatchClient::NextWorker() {
  const auto count = static_cast<uint32_t>(clients_->size());
  const auto now = rpc::Clock::now();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t worker = next_worker_++ % count;
    if (avoid_until_[worker] <= now) return worker;
  }
  return next_worker_++ % count;
}

Status BatchClient::Judge(uint32_t worker, const Status& status) {
  if (absl::IsUnavailable(status)) avoid_until_[worker] = rpc::Clock::now() + kAvoidance;
  return Annotate(status, absl::StrCat("embedding-worker ", worker));
}

rpc::awaitable<StatusOr<BatchReference>> BatchClient::SubmitToNext(
    std::shared_ptr<const CompactBatch> batch, rpc::Clock::time_point deadline) {
  const uint32_t worker = NextWorker();
  rpc::Client& client = *(*clients_)[worker];
  rpc::OutgoingMessage request = api::EncodeSubmit(std::move(batch));
  rpc::Placement placement = rpc::NoSegments();
  auto response = co_await client.Call(api::kSubmitBatch, std::move(request), std::move(placement),
                                       api::PatientUntil(client, deadline));
  if (!response.ok()) co_return Judge(worker, response.status());
  StatusOr<BatchReference> reference = api::DecodeReference(response->metadata);
  if (reference.ok()) reference->worker = worker;
  co_return reference;
}

rpc::awaitable<Status> BatchClient::CallTo(uint32_t worker, rpc::MethodId method,
                                           rpc::OutgoingMessage request, rpc::Placement placement,
                                           rpc::Clock::time_point deadline) {
  rpc::Client& client = *clients_->at(worker);
  auto response = co_await client.Call(method, std::move(request), std::move(placement),
                                       api::PatientUntil(client, deadline));
  co_return Judge(worker, response.status());
}

void BatchClient::Submit(std::shared_ptr<const CompactBatch> batch,
                         std::function<void(StatusOr<BatchReference>)> done) {
  rpc::asio::co_spawn(executor_, SubmitToNext(std::move(batch), Deadline()),
                      Answer(std::move(done)));
}

void BatchClient::Pull(BatchReference batch, PullPurpose purpose, TrainerPosition position,
                       uint64_t acknowledged_steps, MatrixView<float> embeddings,
                       std::shared_ptr<void> owner, std::function<void(Status)> done) {
  rpc::OutgoingMessage request;
  request.metadata =
      api::Encode(api::PullBatchMessage{batch, purpose, position, acknowledged_steps});
  rpc::asio::co_spawn(executor_,
                      CallTo(batch.worker, api::kPullBatch, std::move(request),
                             IntoMatrix(embeddings, std::move(owner)), Deadline()),
                      Answer(std::move(done)));
}

void BatchClient::Push(BatchReference batch, TrainerPosition position,
                       MatrixView<const float> gradients, std::shared_ptr<const void> owner,
                       std::function<void(Status)> done) {
  rpc::OutgoingMessage request;
  request.metadata = api::Encode(api::PushBatchMessage{batch, position});
  request.segments.push_back({std::as_bytes(gradients.flat()), std::move(owner)});
  rpc::asio::co_spawn(
      executor_,
      CallTo(batch.worker, api::kPushBatch, std::move(request), rpc::NoSegments(), Deadline()),
      Answer(std::move(done)));
}

void BatchClient::StopAfter(std::chrono::milliseconds pause) {
  const auto stop = [executor = executor_, clients = clients_, pause]() -> rpc::awaitable<void> {
    rpc::asio::steady_timer timer(executor, pause);
    co_await timer.async_wait(rpc::asio::use_awaitable);
    for (const auto& client : *clients) client->Stop();
  };
  rpc::asio::co_spawn(executor_, stop, rpc::asio::detached);
}

}  // namespace simurgh
