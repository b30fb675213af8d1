#include "simurgh/train/nccl_sums.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "simurgh/collective/nccl_communicator.h"
#include "train/rank_monitor.h"

namespace simurgh {
namespace {

// Maximum wait after an error of NCCL for the monitor to name the rank at fault.
constexpr std::chrono::milliseconds kVerdictPatience{2'000};

class NcclSums final : public DeviceSums {
 public:
  NcclSums(Collective& collective, std::chrono::milliseconds timeout)
      : collective_(collective), timeout_(timeout), watch_(collective, timeout) {}

  // Errors: of NcclCommunicator::Create or of the monitor.
  Status Connect(NcclLibrary& library, const NcclId& id, int device) {
    auto created = NcclCommunicator::Create(library, id,
                                            {.rank = collective_.rank(),
                                             .ranks = collective_.ranks(),
                                             .device = device,
                                             .timeout = timeout_},
                                            [this] { return watch_.status(); });
    if (!created.ok()) return Blame(created.status());
    communicator_ = *std::move(created);
    return absl::OkStatus();
  }

  uint32_t rank() const override { return collective_.rank(); }
  uint32_t ranks() const override { return collective_.ranks(); }

  Status Sum(std::span<float> values, void* stream) override {
    return communicator_->Sum(values, stream);
  }
  Status Sum(std::span<double> values, void* stream) override {
    return communicator_->Sum(values, stream);
  }
  Status Exchange(const std::byte* outgoing, std::byte* incoming, size_t part_bytes,
                  void* stream) override {
    return communicator_->Exchange(outgoing, incoming, part_bytes, stream);
  }
  Status Gather(std::span<const std::byte> own, std::byte* all, void* stream) override {
    return communicator_->Gather(own, all, stream);
  }

  void StepEnqueued() override { watch_.StepEnqueued(); }
  void StepEnded() override { watch_.StepEnded(); }

  Status Check() override {
    const Status verdict = watch_.status();
    if (!verdict.ok()) {
      communicator_->Fail(verdict);
      return verdict;
    }
    const Status state = communicator_->State();
    return state.ok() ? state : Blame(state);
  }

  void GiveUp(const Status& reason) override {
    communicator_->Fail(reason);
    communicator_->GiveUp();
  }

 private:
  // Prefers the monitor's error, because NCCL's does not name the rank at fault.
  Status Blame(const Status& seen) {
    const Status verdict = watch_.Await(kVerdictPatience);
    if (!verdict.ok()) return verdict;
    collective_.Abort(seen);
    return seen;
  }

  Collective& collective_;
  const std::chrono::milliseconds timeout_;
  RankMonitor watch_;  // Outlives the communicator, which calls it.
  std::unique_ptr<NcclCommunicator> communicator_;
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
  auto sums = std::make_unique<NcclSums>(collective, timeout);
  SIMURGH_RETURN_IF_ERROR(sums->Connect(**nccl, offers[0].id, *network.cuda_device()));
  return std::unique_ptr<DeviceSums>(std::move(sums));
}

}  // namespace simurgh
