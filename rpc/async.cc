// This file also compiles Asio's non-template code, once (BOOST_ASIO_SEPARATE_COMPILATION).

#include "rpc/async.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <thread>

#include "absl/strings/str_cat.h"
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/system/system_error.hpp>

namespace simurgh::rpc {
namespace {

// State that the tasks of one WhenAll share; the last task to end may outlive the waiting frame
// only if that was destroyed with its executor.
struct Group {
  Group(const asio::any_io_executor& executor, size_t count)
      : all_ended(executor, Clock::time_point::max()),
        results(count),
        cancel(count),
        running(count) {}

  Waiter all_ended;
  std::vector<Status> results;
  std::deque<asio::cancellation_signal> cancel;  // One a task; a deque, as they cannot move.
  size_t running;
};

}  // namespace

namespace internal {

awaitable<void> ResumeAfter(asio::any_io_executor executor, absl::FunctionRef<void()> work) {
  // The initiation runs when the caller's coroutine is suspended; its frame holds what `work`
  // refers to until `resume` runs.
  auto initiate = [executor = std::move(executor), work](auto resume) {
    auto caller = asio::get_associated_executor(resume);
    auto back = asio::make_work_guard(caller);
    auto run = [work, caller = std::move(caller), back = std::move(back),
                resume = std::move(resume)]() mutable {
      work();
      // The guard moves along: after the caller has resumed, this thread must not use its executor.
      asio::post(caller, [back = std::move(back), resume = std::move(resume)]() mutable {
        std::move(resume)();
      });
    };
    asio::post(executor, std::move(run));
  };
  return asio::async_initiate<const asio::use_awaitable_t<>, void()>(std::move(initiate),
                                                                     asio::use_awaitable);
}

}  // namespace internal

awaitable<Status> WhenAll(std::vector<awaitable<Status>> tasks) {
  if (tasks.empty()) co_return absl::OkStatus();
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);

  const auto group = std::make_shared<Group>(executor, tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    auto end = [group, i](const std::exception_ptr& thrown, Status result) {
      group->results[i] = thrown ? StatusOfException(thrown) : std::move(result);
      if (--group->running == 0) group->all_ended.Wake();
    };
    SpawnCancellable(executor, std::move(tasks[i]), group->cancel[i], std::move(end));
  }
  const bool ended = co_await group->all_ended.Wait();
  if (!ended) {
    for (auto& signal : group->cancel) signal.emit(asio::cancellation_type::terminal);
    co_await group->all_ended.WaitRegardless();
  }

  co_await asio::this_coro::throw_if_cancelled(throws);
  for (Status& result : group->results) {
    if (!result.ok()) co_return std::move(result);
  }
  co_return absl::OkStatus();
}

Status StatusOfException(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const boost::system::system_error& error) {
    if (error.code() == asio::error::operation_aborted) return absl::CancelledError("cancelled");
    return absl::InternalError(absl::StrCat("unexpected exception: ", error.what()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("unexpected exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("unexpected exception of unknown type");
  }
}

namespace {

// Maximum number of consecutive waits without spinning.
constexpr uint32_t kMaxSkipped = 63;

// Returns false without an event until the deadline.
bool Spin(asio::io_context& context, Clock::time_point until) {
  do {
    if (context.poll() != 0) return true;
    std::this_thread::yield();  // The peer may be scheduled on this core.
  } while (!context.stopped() && Clock::now() < until);
  return false;
}

}  // namespace

void RunEventLoop(asio::io_context& context, std::chrono::microseconds max_spin) {
  if (max_spin <= std::chrono::microseconds::zero()) {
    context.run();
    return;
  }
  // The waits that spun decide. The length of a sleep is no evidence, because waking can take
  // longer than the wait: two ends that both sleep would never start to spin.
  uint32_t skip = 0;     // Remaining waits to skip.
  uint32_t skipped = 0;  // Waits to skip after the last failed spin.
  while (!context.stopped()) {
    if (LongWait::any() || skip != 0) {
      if (!LongWait::any()) --skip;
    } else if (Spin(context, Clock::now() + max_spin)) {
      skipped /= 2;
      continue;
    } else {
      skip = skipped = std::min(2 * skipped + 1, kMaxSkipped);
    }
    context.run_one();
  }
}

}  // namespace simurgh::rpc
