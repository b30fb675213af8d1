#include "services/nn_worker/checkpoint_service.h"

#include <algorithm>
#include <utility>

#include "services/api/patience.h"
#include "simurgh/base/log.h"

namespace simurgh {
namespace {

// Longest wait of one call; the next one reports the progress.
constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::milliseconds kPollInterval{20};

rpc::Outgoing<api::SaveCheckpoint::Response> Encode(uint64_t request,
                                                    const Checkpointer::Answer& answer) {
  flatbuffers::FlatBufferBuilder builder;
  const auto folder = builder.CreateString(answer.saved.folder);
  const auto root = api::wire::CreateSaveCheckpointResponse(
      builder, request, answer.done, folder, answer.done ? answer.saved.rows : answer.rows,
      answer.all_rows, answer.saved.bytes);
  return {builder, root};
}

}  // namespace

void CheckpointService::Register(rpc::Server& server) {
  rpc::Register(server, api::kSaveCheckpoint,
                [this](auto request) { return OnSave(std::move(request)); });
}

Reply<api::SaveCheckpoint> CheckpointService::OnSave(
    rpc::RequestOf<api::SaveCheckpoint::Request> request) {
  if (checkpointer_ == nullptr) {
    co_return absl::FailedPreconditionError(
        "the training has no checkpoint.directory; start it again with one");
  }
  uint64_t number = request.table().request();
  if (number == 0) {
    const auto* const directory = request.table().directory();
    SIMURGH_CO_ASSIGN_OR_RETURN(
        number, checkpointer_->Request(directory == nullptr ? "" : directory->str()));
    spdlog::info("checkpoint requested: request={}", number);
    co_return Encode(number, {});
  }
  const auto until = std::min(api::AnswerBefore(request.deadline()), rpc::Clock::now() + kPatience);
  rpc::asio::steady_timer timer(co_await rpc::asio::this_coro::executor);
  while (true) {
    SIMURGH_CO_ASSIGN_OR_RETURN(const Checkpointer::Answer answer, checkpointer_->Ask(number));
    if (answer.done || rpc::Clock::now() >= until) co_return Encode(number, answer);
    timer.expires_after(kPollInterval);
    co_await timer.async_wait(rpc::kNoThrow);
  }
}

}  // namespace simurgh
