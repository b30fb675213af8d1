#include "simurgh/collective/nccl_communicator.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

constexpr std::chrono::microseconds kPollInterval{20};

}  // namespace

NcclCommunicator::NcclCommunicator(NcclLibrary& library, const Options& options,
                                   std::function<Status()> check)
    : library_(library), options_(options), check_(std::move(check)) {}

StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(
    NcclLibrary& library, const NcclId& id, const Options& options, std::function<Status()> check) {
  SIMURGH_CHECK(check != nullptr);
  std::unique_ptr<NcclCommunicator> communicator(
      new NcclCommunicator(library, options, std::move(check)));
  SIMURGH_ASSIGN_OR_RETURN(communicator->handle_,
                           library.Connect(id, options.rank, options.ranks, options.device));
  SIMURGH_RETURN_IF_ERROR(communicator->Await("connect"));
  return communicator;
}

NcclCommunicator::~NcclCommunicator() {
  if (handle_ == nullptr) return;
  // Without Finish, Free would wait for the other ranks without a limit.
  const Status finished = Call("finish", [&] { return library_.Finish(handle_); });
  finished.ok() ? library_.Free(handle_) : GiveUp();
}

void NcclCommunicator::Fail(const Status& reason) { failure_.Update(reason); }

void NcclCommunicator::GiveUp() {
  if (handle_ != nullptr) library_.Abort(std::exchange(handle_, nullptr));
}

Status NcclCommunicator::State() {
  if (!failure_.ok()) return failure_;
  const NcclLibrary::Progress progress = library_.StateOf(handle_);
  if (progress.state == NcclLibrary::State::kFailed) {
    Fail(absl::UnavailableError(absl::StrCat("NCCL: ", progress.error)));
  }
  return failure_;
}

Status NcclCommunicator::Await(const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  while (failure_.ok()) {
    const NcclLibrary::Progress progress = library_.StateOf(handle_);
    if (progress.state == NcclLibrary::State::kDone) return absl::OkStatus();
    if (progress.state == NcclLibrary::State::kFailed) {
      Fail(absl::UnavailableError(absl::StrCat("NCCL: ", what, ": ", progress.error)));
      break;
    }
    const Status checked = check_();
    if (!checked.ok()) {
      Fail(checked);
    } else if (std::chrono::steady_clock::now() >= deadline) {
      Fail(absl::DeadlineExceededError(absl::StrCat("NCCL: ", what, " took longer than ",
                                                    options_.timeout.count(),
                                                    " ms (nn_worker.rank_timeout)")));
    } else {
      std::this_thread::sleep_for(kPollInterval);
    }
  }
  return failure_;
}

template <typename Function>
Status NcclCommunicator::Call(const char* what, const Function& call) {
  if (!failure_.ok()) return failure_;
  Fail(call());
  return Await(what);
}

Status NcclCommunicator::Sum(std::span<float> values, void* stream) {
  return Call("sum", [&] { return library_.Sum(handle_, values, stream); });
}

Status NcclCommunicator::Sum(std::span<double> values, void* stream) {
  return Call("sum", [&] { return library_.Sum(handle_, values, stream); });
}

Status NcclCommunicator::Exchange(const std::byte* outgoing, std::byte* incoming, size_t part_bytes,
                                  void* stream) {
  return Call("exchange",
              [&] { return library_.Exchange(handle_, outgoing, incoming, part_bytes, stream); });
}

Status NcclCommunicator::Gather(std::span<const std::byte> own, std::byte* all, void* stream) {
  return Call("gather", [&] { return library_.Gather(handle_, own, all, stream); });
}

}  // namespace simurgh
