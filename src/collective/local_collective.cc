#include <algorithm>
#include <array>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/check.h"
#include "simurgh/base/mutex.h"
#include "simurgh/collective/collective.h"

namespace simurgh {
namespace {

class LocalCollective final : public Collective {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t ranks() const override { return 1; }

  Status Sum(Channel channel, std::span<float> /*values*/, ReducePrecision /*precision*/,
             std::span<float> /*residual*/, absl::FunctionRef<void()> meanwhile) override {
    meanwhile();
    return StatusOf(channel);
  }
  Status Sum(Channel channel, std::span<double> /*values*/) override { return StatusOf(channel); }

  Status Gather(Channel channel, std::span<const std::byte> own,
                std::span<std::byte> all) override {
    SIMURGH_CHECK_EQ(own.size(), all.size());
    std::ranges::copy(own, all.begin());
    return StatusOf(channel);
  }

  void Close(Channel channel) override {
    const MutexLock lock(mutex_);
    closed_[static_cast<size_t>(channel)] = true;
  }

  void Abort(const Status& reason) override {
    const MutexLock lock(mutex_);
    if (status_.ok()) status_ = reason;
  }

 private:
  Status StatusOf(Channel channel) {
    const MutexLock lock(mutex_);
    if (!status_.ok() || !closed_[static_cast<size_t>(channel)]) return status_;
    return absl::CancelledError("ranks: the channel is closed");
  }

  Mutex mutex_;
  Status status_ ABSL_GUARDED_BY(mutex_);
  std::array<bool, kChannels> closed_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace

std::unique_ptr<Collective> NewLocalCollective() { return std::make_unique<LocalCollective>(); }

}  // namespace simurgh
