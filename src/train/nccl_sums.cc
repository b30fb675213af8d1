#include "train/nccl_sums.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "train/rank_monitor.h"

namespace simurgh {
namespace {

// Maximum wait after an error of NCCL for the monitor to name the rank at fault.
constexpr std::chrono::milliseconds kVerdictPatience{2'000};

constexpr std::chrono::microseconds kPollInterval{20};

// A call waits for other ranks until the monitor fails or the timeout expires. After the first
// error every call fails with it.
class NcclSums final : public DeviceSums {
 public:
  NcclSums(NcclLibrary& library, Collective& collective, std::chrono::milliseconds timeout)
      : library_(library),
        collective_(collective),
        timeout_(timeout),
        watch_(collective, timeout) {}

  // Waits at most the timeout until all ranks have ended their work, then frees the communicator,
  // or aborts it. Wait for the streams first.
  ~NcclSums() override {
    if (handle_ == nullptr) return;
    // Without Finish, Free would wait for the other ranks without a limit.
    const Status finished = Call("finish", [&] { return library_.Finish(handle_); });
    finished.ok() ? library_.Free(handle_) : Abort();
  }

  NcclSums(const NcclSums&) = delete;
  NcclSums& operator=(const NcclSums&) = delete;

  // Errors: those of the library and of the monitor; DEADLINE_EXCEEDED.
  Status Connect(const NcclId& id, int device) {
    const StatusOr<NcclLibrary::Handle> handle =
        library_.Connect(id, collective_.rank(), collective_.ranks(), device);
    if (!handle.ok()) return Blame(handle.status());
    handle_ = *handle;
    const Status connected = Await("connect");
    if (connected.ok()) return connected;
    Abort();
    return Blame(connected);
  }

  uint32_t rank() const override { return collective_.rank(); }
  uint32_t ranks() const override { return collective_.ranks(); }

  Status Sum(std::span<float> values, void* stream) override {
    return Call("sum", [&] { return library_.Sum(handle_, values, stream); });
  }
  Status Sum(std::span<double> values, void* stream) override {
    return Call("sum", [&] { return library_.Sum(handle_, values, stream); });
  }
  Status Exchange(const std::byte* outgoing, std::byte* incoming, size_t part_bytes,
                  void* stream) override {
    return Call("exchange",
                [&] { return library_.Exchange(handle_, outgoing, incoming, part_bytes, stream); });
  }
  Status Gather(std::span<const std::byte> own, std::byte* all, void* stream) override {
    return Call("gather", [&] { return library_.Gather(handle_, own, all, stream); });
  }

  void StepEnqueued() override { watch_.StepEnqueued(); }
  void StepEnded() override { watch_.StepEnded(); }

  Status Check() override {
    const Status verdict = watch_.status();
    if (!verdict.ok()) {
      failure_.Update(verdict);
      return verdict;
    }
    if (failure_.ok()) {
      const NcclLibrary::Progress progress = library_.StateOf(handle_);
      if (progress.state == NcclLibrary::State::kFailed) {
        failure_ = absl::UnavailableError(absl::StrCat("NCCL: ", progress.error));
      }
    }
    return failure_.ok() ? failure_ : Blame(failure_);
  }

  void GiveUp(const Status& reason) override {
    failure_.Update(reason);
    Abort();
  }

 private:
  void Abort() {
    if (handle_ != nullptr) library_.Abort(std::exchange(handle_, nullptr));
  }

  // Prefers the monitor's error, because NCCL's does not name the rank at fault.
  Status Blame(const Status& seen) {
    const Status verdict = watch_.Await(kVerdictPatience);
    if (!verdict.ok()) return verdict;
    collective_.Abort(seen);
    return seen;
  }

  // Makes a call and waits until it is enqueued.
  template <typename Function>
  Status Call(const char* what, const Function& call) {
    if (!failure_.ok()) return failure_;
    failure_ = call();
    return Await(what);
  }

  Status Await(const char* what) {
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    while (failure_.ok()) {
      const NcclLibrary::Progress progress = library_.StateOf(handle_);
      if (progress.state == NcclLibrary::State::kDone) break;
      if (progress.state == NcclLibrary::State::kFailed) {
        failure_ = absl::UnavailableError(absl::StrCat("NCCL: ", what, ": ", progress.error));
      } else if (const Status checked = watch_.status(); !checked.ok()) {
        failure_ = checked;
      } else if (std::chrono::steady_clock::now() >= deadline) {
        failure_ = absl::DeadlineExceededError(absl::StrCat("NCCL: ", what, " took longer than ",
                                                            timeout_.count(),
                                                            " ms (nn_worker.rank_timeout)"));
      } else {
        std::this_thread::sleep_for(kPollInterval);
      }
    }
    return failure_;
  }

  NcclLibrary& library_;
  Collective& collective_;
  const std::chrono::milliseconds timeout_;  // Per call.
  RankMonitor watch_;
  NcclLibrary::Handle handle_ = nullptr;  // Null before Connect and after GiveUp.
  Status failure_;                        // The first one.
};

// A rank's abilities, and rank 0's name for the group.
struct Offer {
  uint32_t has_device = 0;
  uint32_t has_nccl = 0;
  NcclId id{};
};

// The lack of the first rank that lacks something, or empty.
std::string MissingPart(const std::vector<Offer>& offers) {
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].has_device == 0) {
      return absl::StrCat("rank ", rank, " computes on the CPU");
    }
    if (offers[rank].has_nccl == 0) return absl::StrCat("rank ", rank, " has no NCCL");
  }
  return "";
}

}  // namespace

StatusOr<std::unique_ptr<DeviceSums>> ConnectDevices(const DenseNetwork& network,
                                                     Collective& collective,
                                                     const StatusOr<NcclLibrary*>& nccl,
                                                     std::chrono::milliseconds timeout,
                                                     std::string* reason) {
  Offer own{.has_device = network.cuda_device() ? 1U : 0U, .has_nccl = nccl.ok() ? 1U : 0U};
  if (collective.rank() == 0 && own.has_device != 0 && own.has_nccl != 0) {
    const StatusOr<NcclId> id = (*nccl)->NewId();
    if (id.ok()) own.id = *id;
    own.has_nccl = id.ok() ? 1 : 0;
  }
  std::vector<Offer> offers(collective.ranks());
  SIMURGH_RETURN_IF_ERROR(collective.Gather(Channel::kStep, std::as_bytes(std::span(&own, 1)),
                                            std::as_writable_bytes(std::span(offers))));
  *reason = MissingPart(offers);
  if (!reason->empty()) return nullptr;
  auto sums = std::make_unique<NcclSums>(**nccl, collective, timeout);
  SIMURGH_RETURN_IF_ERROR(sums->Connect(offers[0].id, *network.cuda_device()));
  return std::unique_ptr<DeviceSums>(std::move(sums));
}

}  // namespace simurgh
