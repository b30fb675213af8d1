#pragma once

// Records calls, executions and results of a soak test.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "rpc/message.h"
#include "tests/concurrency/soak_plan.h"

namespace simurgh::rpc {

// How a call ended. kRefused and kAnsweredError: with the error of its plan, without and with an
// execution of its handler. kFailed: lost, late or cancelled; the handler may have run.
enum class Ending : uint8_t { kPending, kOk, kAnsweredError, kRefused, kFailed };
inline constexpr size_t kEndings = 5;

// Threads: any; Sums() after the calls have ended.
class Ledger {
 public:
  explicit Ledger(size_t calls) : entries_(calls) {}

  // A handler has started.
  void OnExecuted(uint64_t id);
  // A call has returned.
  void OnEnd(uint64_t id, Ending ending);
  // Records an error of the library.
  void Fault(uint64_t id, const std::string& what);

  // Calls that have returned.
  size_t ended() const { return ended_.load(); }
  std::vector<uint64_t> Pending() const;

  // Compares the entries of both sides: every call has ended once and was executed at most once, an
  // answered one exactly once, a refused one never.
  void Settle();

  std::array<size_t, kEndings> Sums() const;
  // The first faults, and the number of all.
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

// Compares a message to its plan. Returns empty or the difference.
std::string Compare(const PlannedMessage& planned, uint64_t id, Direction direction,
                    const IncomingMessage& message);

// Checks a result against its plan. Returns empty or the error.
std::string CheckResult(const CallPlan& plan, uint64_t id, const StatusOr<IncomingMessage>& result);

Ending EndingOf(const CallPlan& plan, uint64_t id, const Status& status);

// The message of planned errors.
std::string FailureText(uint64_t id);

}  // namespace simurgh::rpc
