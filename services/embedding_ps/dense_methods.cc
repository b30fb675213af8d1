#include "services/embedding_ps/dense_methods.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/dense_rpc.h"
#include "services/api/reply.h"

namespace simurgh {
namespace {

// The numbers of a response.
std::span<float> FloatsOf(const rpc::SegmentBuffer& buffer) {
  return {reinterpret_cast<float*>(buffer.bytes.data()), buffer.bytes.size() / sizeof(float)};
}

Reply<api::StartDense> HandleStart(rpc::RequestOf<api::StartDense::Request> request,
                                   DenseStore& store, RunGuard& runs) {
  SIMURGH_CO_RETURN_IF_ERROR(
      runs.Admit(request.table().run(), RunGuard::Request::kPull, RunGuard::Clock::now()));
  SIMURGH_CO_ASSIGN_OR_RETURN(const DenseOptimizerConfig optimizer,
                              api::Decode(*request.table().optimizer()));
  StartDenseCall call{
      .run = request.table().run(),
      .optimizer = optimizer,
      .parameters = request.segment<"parameters">(),
      .state = request.segment<"state">(),
      .owner =
          std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
              request.owner<"parameters">(), request.owner<"state">())};
  SIMURGH_CO_ASSIGN_OR_RETURN(const DenseAnswer answer,
                              co_await store.Start(std::move(call), {request.deadline()}));
  co_return api::EncodeStarted(answer);
}

Reply<api::PullDense> HandlePull(rpc::RequestOf<api::PullDense::Request> request,
                                 DenseStore& store) {
  // Limits the allocation; Pull() rejects a count that differs.
  const size_t count = std::min<size_t>(request.table().count(), store.longest());
  const rpc::SegmentBuffer memory = request.Allocate(count * sizeof(float));
  PullDenseCall call{.run = request.table().run(),
                     .state = request.table().state(),
                     .values = FloatsOf(memory),
                     .owner = memory.owner};
  SIMURGH_CO_ASSIGN_OR_RETURN(const DenseAnswer answer,
                              co_await store.Pull(std::move(call), {request.deadline()}));
  co_return api::EncodeWeights<api::PullDense>(answer, {FloatsOf(memory), memory.owner});
}

Reply<api::PushDense> HandlePush(rpc::RequestOf<api::PushDense::Request> request, DenseStore& store,
                                 RunGuard& runs) {
  SIMURGH_CO_RETURN_IF_ERROR(
      runs.Admit(request.table().run(), RunGuard::Request::kPush, RunGuard::Clock::now()));
  const std::span<const float> gradients = request.segment<"gradients">();
  const rpc::SegmentBuffer memory = request.Allocate(gradients.size_bytes());
  const auto& table = request.table();
  PushDenseCall call{.run = table.run(),
                     .rank = table.rank(),
                     .number = table.number(),
                     .base_version = table.base_version(),
                     .learning_rate = table.learning_rate(),
                     .gradients = gradients,
                     .parameters = FloatsOf(memory),
                     .owner = memory.owner};
  SIMURGH_CO_ASSIGN_OR_RETURN(const DenseAnswer answer,
                              co_await store.Push(std::move(call), {request.deadline()}));
  co_return api::EncodeWeights<api::PushDense>(answer, {FloatsOf(memory), memory.owner});
}

Status CheckCount(uint64_t count, uint64_t limit) {
  if (count <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("dense weights: a range of ", count,
                                                 " numbers; a server holds at most ", limit));
}

}  // namespace

void RegisterDenseMethods(rpc::Server& server, DenseStore& store, RunGuard& runs,
                          BufferPool& buffers) {
  using StartPlaces = rpc::Destinations<api::StartDense::Request>;
  const auto place_start =
      [&buffers](const api::wire::StartDenseRequest& /*request*/,
                 const api::StartDense::Request::Counts& counts) -> StatusOr<StartPlaces> {
    SIMURGH_RETURN_IF_ERROR(CheckCount(counts[0], DenseShard::kMaxFloats));
    SIMURGH_RETURN_IF_ERROR(CheckCount(counts[1], DenseShard::kMaxStateFloats));
    return StartPlaces{rpc::LeasedDestination<float>(buffers, counts[0]),
                       rpc::LeasedDestination<float>(buffers, counts[1])};
  };
  rpc::Register(server, api::kStartDense, place_start, [&store, &runs](auto request) {
    return HandleStart(std::move(request), store, runs);
  });

  rpc::Register(server, api::kPullDense,
                [&store](auto request) { return HandlePull(std::move(request), store); });

  using PushPlaces = rpc::Destinations<api::PushDense::Request>;
  const auto place_push =
      [](const api::wire::PushDenseRequest& /*request*/,
         const api::PushDense::Request::Counts& counts) -> StatusOr<PushPlaces> {
    SIMURGH_RETURN_IF_ERROR(CheckCount(counts[0], DenseShard::kMaxFloats));
    return PushPlaces{rpc::SegmentDestination<float>::kAllocate};
  };
  rpc::Register(server, api::kPushDense, place_push, [&store, &runs](auto request) {
    return HandlePush(std::move(request), store, runs);
  });
}

}  // namespace simurgh
