#include <algorithm>

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

  Status Sum(Channel /*channel*/, std::span<float> /*values*/, ReducePrecision /*precision*/,
             std::span<float> /*residual*/) override {
    return status();
  }
  Status Sum(Channel /*channel*/, std::span<double> /*values*/) override { return status(); }

  Status Gather(Channel /*channel*/, std::span<const std::byte> own,
                std::span<std::byte> all) override {
    SIMURGH_CHECK_EQ(own.size(), all.size());
    std::ranges::copy(own, all.begin());
    return status();
  }

  void Abort(const Status& reason) override {
    const MutexLock lock(mutex_);
    if (status_.ok()) status_ = reason;
  }

 private:
  Status status() {
    const MutexLock lock(mutex_);
    return status_;
  }

  Mutex mutex_;
  Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Collective> NewLocalCollective() { return std::make_unique<LocalCollective>(); }

}  // namespace simurgh
