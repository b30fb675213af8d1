#include "tests/concurrency/soak_caller.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "rpc/async.h"
#include "rpc/timers.h"
#include "tests/concurrency/soak_keepsakes.h"
#include "tests/concurrency/soak_server.h"

namespace simurgh::rpc {
namespace {

constexpr std::byte kGuard{0xa5};
// Larger messages are allocated per call, so that a caller does not keep megabytes.
constexpr size_t kKeptBytes = 65'536;

uint64_t SumOf(std::span<const uint64_t> lengths) {
  uint64_t sum = 0;
  for (const uint64_t length : lengths) sum += length;
  return sum;
}

// Reconnects quickly.
ClientOptions Hasty(ClientOptions options) {
  options.backoff_min = std::chrono::milliseconds(1);
  options.backoff_max = std::chrono::milliseconds(20);
  return options;
}

}  // namespace

class SoakCallers::Caller {
 public:
  explicit Caller(SoakCallers& callers)
      : callers_(callers),
        borrowed_(kKeptBytes),
        keepsakes_(callers.numbers_.seed, Direction::kResponse, callers.ledger_) {
    incoming_payloads_.fill(Bytes(kKeptBytes, kGuard));
  }

  [[nodiscard]] awaitable<Status> Run() {
    CallNumbers& numbers = callers_.numbers_;
    for (uint64_t id = numbers.next++; id < numbers.end; id = numbers.next++) {
      co_await Make(id, PlanOf(numbers.seed, id));
    }
    co_return absl::OkStatus();
  }

 private:
  using Bytes = std::vector<std::byte>;

  [[nodiscard]] awaitable<void> Make(uint64_t id, const CallPlan& plan) {
    turn_ ^= 1;
    CheckGuard(id);
    const bool unknown = plan.act == Act::kUnknownMethod;
    const Clock::time_point deadline =
        plan.deadline ? Clock::now() + *plan.deadline : Clock::time_point::max();
    auto call = callers_.client_.Call(unknown ? kSoakUnknownMethod : kSoakMethod,
                                      RequestOf(plan, id), PlacementOf(plan, id), deadline);
    asio::cancellation_signal cancel;
    Waiter end(callers_.executor_, Clock::time_point::max());
    Ledger& ledger = callers_.ledger_;
    // Shared, because a second completion would run after the end of this frame.
    const auto open = std::make_shared<bool>(true);
    SpawnCancellable(
        callers_.executor_, std::move(call), cancel,
        [&, id, open](const std::exception_ptr& thrown, StatusOr<IncomingMessage> result) {
          if (!std::exchange(*open, false)) return;
          if (thrown) result = StatusOfException(thrown);  // Cancelled before it began.
          const std::string fault = CheckResult(plan, id, result);
          if (!fault.empty()) ledger.Fault(id, fault);
          const Ending ending = EndingOf(plan, id, result.status());
          if (ending != Ending::kOk) SetGuard();
          if (result.ok() && plan.response.allocate) keepsakes_.Keep(id, *std::move(result));
          std::fill_n(borrowed_.begin(), borrowed_bytes_, kGuard);
          ledger.OnEnd(id, ending);
          end.Wake();
        });
    const Watchdog give_up(callers_.executor_,
                           plan.cancel ? Clock::now() + *plan.cancel : Clock::time_point::max(),
                           [&cancel] { cancel.emit(asio::cancellation_type::terminal); });
    co_await end.WaitRegardless();
  }

  OutgoingMessage RequestOf(const CallPlan& plan, uint64_t id) {
    const PlannedMessage& planned = plan.request;
    metadata_ = std::make_shared<const Bytes>(MetadataOf(planned, id, Direction::kRequest));
    OutgoingMessage request;
    request.metadata = {.bytes = *metadata_};
    if (!plan.borrowed) request.metadata.owner = metadata_;
    borrowed_bytes_ = 0;
    for (size_t i = 0; i < planned.segments.size(); ++i) {
      std::span<const std::byte> content = ContentOf(planned, id, Direction::kRequest, i);
      if (planned.in_place) {
        const SegmentBuffer buffer = callers_.client_.Allocate(content.size());
        std::ranges::copy(content, buffer.bytes.begin());
        request.segments.push_back(buffer.segment());
        continue;
      }
      if (plan.borrowed && content.size() <= borrowed_.size() - borrowed_bytes_) {
        const auto copy = std::span(borrowed_).subspan(borrowed_bytes_, content.size());
        std::ranges::copy(content, copy.begin());
        content = copy;
        borrowed_bytes_ += content.size();
      }
      request.segments.push_back({.bytes = content});
      if (!plan.borrowed) request.segments.back().owner = metadata_;
    }
    return request;
  }

  Placement PlacementOf(const CallPlan& plan, uint64_t id) {
    if (plan.act == Act::kRefuseResponse) {
      return [id](auto, auto) -> StatusOr<std::vector<IncomingSegment>> {
        return absl::AbortedError(FailureText(id));
      };
    }
    if (plan.response.allocate) return AllocateAll(plan.response.segments.size());
    return [this, turn = turn_](std::span<const std::byte>, std::span<const uint64_t> lengths) {
      std::span<std::byte> room = incoming_payloads_[turn];
      std::shared_ptr<Bytes> owner;
      if (SumOf(lengths) > room.size()) {
        owner = std::make_shared<Bytes>(SumOf(lengths));
        room = *owner;
      }
      std::vector<IncomingSegment> destinations;
      for (const uint64_t length : lengths) {
        destinations.push_back({.bytes = room.first(length), .owner = owner});
        room = room.subspan(length);
      }
      return StatusOr<std::vector<IncomingSegment>>(std::move(destinations));
    };
  }

  // After a call its destination must not be written; checked before its next use.
  void SetGuard() {
    std::ranges::fill(incoming_payloads_[turn_], kGuard);
    guarded_[turn_] = true;
  }
  void CheckGuard(uint64_t id) {
    const Bytes& payload = incoming_payloads_[turn_];
    const bool untouched =
        payload[0] == kGuard && std::memcmp(&payload[0], &payload[1], payload.size() - 1) == 0;
    if (guarded_[turn_] && !untouched) {
      callers_.ledger_.Fault(id, "the destination of an earlier call was written");
    }
    guarded_[turn_] = false;
  }

  SoakCallers& callers_;
  std::shared_ptr<const Bytes> metadata_;
  Bytes borrowed_;
  size_t borrowed_bytes_ = 0;  // In use.
  std::array<Bytes, 2> incoming_payloads_;
  std::array<bool, 2> guarded_{};
  size_t turn_ = 0;
  Keepsakes keepsakes_;
};

SoakCallers::SoakCallers(asio::any_io_executor executor, const std::string& address,
                         CallNumbers& numbers, Ledger& ledger, ClientOptions options)
    : executor_(std::move(executor)),
      numbers_(numbers),
      ledger_(ledger),
      client_(executor_, address, SoakHello("client"), Hasty(std::move(options)), nullptr) {}

awaitable<Status> SoakCallers::Run(size_t callers) {
  std::vector<std::unique_ptr<Caller>> all;
  std::vector<awaitable<Status>> tasks;
  for (size_t i = 0; i < callers; ++i) {
    all.push_back(std::make_unique<Caller>(*this));
    tasks.push_back(all.back()->Run());
  }
  const Status status = co_await WhenAll(std::move(tasks));
  co_return status;
}

}  // namespace simurgh::rpc
