#include "tests/concurrency/soak_ledger.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace simurgh::rpc {
namespace {

constexpr size_t kFaultsKept = 20;

bool Holds(const Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// Whether the error is the one that the plan makes a handler or a placement return.
bool IsPlannedError(const CallPlan& plan, uint64_t id, const Status& status) {
  const bool has_text = Holds(status, FailureText(id));
  switch (plan.act) {
    case Act::kFail:
      return absl::IsFailedPrecondition(status) && has_text;
    case Act::kThrow:
      return absl::IsInternal(status) && has_text;
    case Act::kRefuseRequest:
      return absl::IsOutOfRange(status) && has_text;
    case Act::kRefuseResponse:
      return absl::IsAborted(status) && has_text;
    case Act::kUnknownMethod:
      return absl::IsUnimplemented(status);
    default:
      return false;
  }
}

}  // namespace

void Ledger::OnExecuted(uint64_t id) {
  if (id >= entries_.size()) return Fault(id, "a handler got an unknown call");
  if (entries_[id].executed.fetch_add(1) != 0) Fault(id, "executed twice");
}

void Ledger::OnEnd(uint64_t id, Ending ending) {
  entries_[id].ending = ending;
  if (entries_[id].ends.fetch_add(1) != 0) Fault(id, "ended twice");
  ++ended_;
}

void Ledger::Fault(uint64_t id, const std::string& what) {
  const MutexLock lock(mutex_);
  if (++fault_count_ <= kFaultsKept) faults_.push_back(absl::StrCat("call ", id, ": ", what));
}

std::vector<uint64_t> Ledger::Pending() const {
  std::vector<uint64_t> pending;
  for (uint64_t id = 0; id < entries_.size(); ++id) {
    if (entries_[id].ends == 0) pending.push_back(id);
  }
  return pending;
}

void Ledger::Settle() {
  for (const uint64_t id : Pending()) Fault(id, "never ended");
  for (uint64_t id = 0; id < entries_.size(); ++id) {
    const Ending ending = entries_[id].ending;
    const int executed = entries_[id].executed;
    if (ending == Ending::kRefused && executed != 0) Fault(id, "executed although refused");
    if ((ending == Ending::kOk || ending == Ending::kAnsweredError) && executed == 0) {
      Fault(id, "answered without having been executed");
    }
  }
}

std::array<size_t, kEndings> Ledger::Sums() const {
  std::array<size_t, kEndings> sums{};
  for (const Entry& entry : entries_) ++sums[static_cast<size_t>(entry.ending.load())];
  return sums;
}

std::vector<std::string> Ledger::faults() const {
  const MutexLock lock(mutex_);
  return faults_;
}

size_t Ledger::fault_count() const {
  const MutexLock lock(mutex_);
  return fault_count_;
}

std::string Compare(const PlannedMessage& planned, uint64_t id, Direction direction,
                    const IncomingMessage& message) {
  if (message.metadata != MetadataOf(planned, id, direction)) {
    const auto stated = IdOf(message.metadata);
    return absl::StrCat("wrong metadata, ", message.metadata.size(), " bytes, of call ",
                        stated ? absl::StrCat(*stated) : "?");
  }
  if (message.segments.size() != planned.segments.size()) {
    return absl::StrCat(message.segments.size(), " segments instead of ", planned.segments.size());
  }
  for (size_t i = 0; i < planned.segments.size(); ++i) {
    const std::span<const std::byte> expected = ContentOf(planned, id, direction, i);
    const std::span<const std::byte> bytes = message.segments[i].bytes;
    if (bytes.size() != expected.size() ||
        (!bytes.empty() && std::memcmp(bytes.data(), expected.data(), bytes.size()) != 0)) {
      return absl::StrCat("segment ", i, " of ", expected.size(), " bytes differs");
    }
  }
  return "";
}

std::string CheckResult(const CallPlan& plan, uint64_t id,
                        const StatusOr<IncomingMessage>& result) {
  if (result.ok()) {
    if (plan.act != Act::kAnswer) return "succeeded against its plan";
    return Compare(plan.response, id, Direction::kResponse, *result);
  }
  const Status& status = result.status();
  if (IsPlannedError(plan, id, status)) return "";
  // Any call can be lost, and a stopping server cancels what has not ended in time.
  if (absl::IsUnavailable(status) || absl::IsCancelled(status)) return "";
  if (absl::IsDeadlineExceeded(status) && plan.deadline) return "";
  return absl::StrCat("unplanned: ", status.ToString());
}

Ending EndingOf(const CallPlan& plan, uint64_t id, const Status& status) {
  if (status.ok()) return Ending::kOk;
  if (!IsPlannedError(plan, id, status)) return Ending::kFailed;
  const bool refused = plan.act == Act::kRefuseRequest || plan.act == Act::kUnknownMethod;
  return refused ? Ending::kRefused : Ending::kAnsweredError;
}

std::string FailureText(uint64_t id) { return absl::StrCat("planned failure of call ", id, "."); }

}  // namespace simurgh::rpc
