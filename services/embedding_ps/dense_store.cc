#include "services/embedding_ps/dense_store.h"

#include <algorithm>
#include <utility>

#include "simurgh/base/log.h"

namespace simurgh {

rpc::awaitable<StatusOr<DenseAnswer>> DenseStore::Start(StartDenseCall call,
                                                        rpc::CallOptions /*options*/) {
  return rpc::RunOn(thread_.executor(), [this, call = std::move(call)]() -> StatusOr<DenseAnswer> {
    SIMURGH_ASSIGN_OR_RETURN(const DenseAnswer answer, shard_.Start(call));
    longest_ = std::max(longest_.load(), shard_.longest());
    bytes_.Set(static_cast<double>(shard_.bytes()));
    return answer;
  });
}

rpc::awaitable<StatusOr<DenseAnswer>> DenseStore::Pull(PullDenseCall call,
                                                       rpc::CallOptions /*options*/) {
  return rpc::RunOn(thread_.executor(),
                    [this, call = std::move(call)] { return shard_.Pull(call); });
}

rpc::awaitable<StatusOr<DenseAnswer>> DenseStore::Push(PushDenseCall call,
                                                       rpc::CallOptions /*options*/) {
  return rpc::RunOn(thread_.executor(),
                    [this, call = std::move(call)] { return shard_.Push(call); });
}

void DenseStore::NoteNotFinite(const PushDenseCall& call) {
  not_finite_.Add();
  const auto suppressed = not_finite_log_.Admit(LogLimiter::Clock::now());
  if (!suppressed) return;
  spdlog::warn("dropped a dense push that is not finite: run={:016x} rank={} push={} suppressed={}",
               call.run, call.rank, call.number, *suppressed);
}

}  // namespace simurgh
