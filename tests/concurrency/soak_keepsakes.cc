#include "tests/concurrency/soak_keepsakes.h"

#include <string>
#include <utility>

namespace simurgh::rpc {

Keepsakes::~Keepsakes() {
  for (Kept& kept : kept_) Release(kept);
}

void Keepsakes::Keep(uint64_t id, IncomingMessage message) {
  Kept& kept = kept_[next_++ % kept_.size()];
  Release(kept);
  kept = {.id = id, .present = true, .message = std::move(message)};
}

void Keepsakes::Release(Kept& kept) {
  if (!kept.present) return;
  const CallPlan plan = PlanOf(seed_, kept.id);
  const PlannedMessage& planned = direction_ == Direction::kRequest ? plan.request : plan.response;
  const std::string difference = Compare(planned, kept.id, direction_, kept.message);
  if (!difference.empty()) ledger_.Fault(kept.id, "changed while it was kept: " + difference);
  kept = {};
}

}  // namespace simurgh::rpc
