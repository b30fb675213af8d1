#pragma once

// The books of a soak: what was called, what was executed, what came back.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rpc/message.h"
#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "tests/concurrency/soak_plan.h"

namespace simurgh::rpc {

// How a call ended. kRefused and kAnsweredError: with the error of its plan, without and with an
// execution of its handler. kFailed: lost, late or cancelled; the handler may have run.
enum class Ending : uint8_t { kPending, kOk, kAnsweredError, kRefused, kFailed };
inline constexpr size_t kEndings = 5;

// Threads: all members may be called from any thread; the sums once the calls have ended.
class Ledger {
 public:
  explicit Ledger(size_t calls) : entries_(calls) {}

  // A handler has been started with this request.
  void OnExecuted(uint64_t id);
  // A call has come back to its caller.
  void OnEnd(uint64_t id, Ending ending);
  // Something that must not happen.
  void Fault(uint64_t id, const std::string& what);

  // Calls that have come back.
  size_t ended() const { return ended_.load(); }
  std::vector<uint64_t> Pending() const;

  // Compares the entries of both sides: every call has ended once and was executed at most once, an
  // answered one exactly once, a refused one never.
  void Settle();

  std::array<size_t, kEndings> Sums() const;
  // The first faults, and how many there were.
  std::vector<std::string> faults() const;
  size_t fault_count() const;

 private:
  struct Entry {
    std::atomic<uint8_t> executed{0};
    std::atomic<uint8_t> ends{0};
    std::atomic<Ending> ending{Ending::kPending};
  };

  std::vector<Entry> entries_;
  std::atomic<size_t> ended_{0};
  mutable Mutex mutex_;
  std::vector<std::string> faults_ ABSL_GUARDED_BY(mutex_);
  size_t fault_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Whether a message is what the plan says it must be; empty if so, else what differs.
std::string Compare(const PlannedMessage& planned, uint64_t id, Direction direction,
                    const IncomingMessage& message);

// Whether a call may end like this according to its plan; empty if so.
std::string Judge(const CallPlan& plan, uint64_t id, const StatusOr<IncomingMessage>& result);

Ending EndingOf(const CallPlan& plan, uint64_t id, const Status& status);

// What the handler of a call with Act::kFail or kThrow says.
std::string FailureText(uint64_t id);

}  // namespace simurgh::rpc
