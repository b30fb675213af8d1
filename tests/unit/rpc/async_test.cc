#include "rpc/async.h"

#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <boost/asio/thread_pool.hpp>
#include <catch2/catch.hpp>

#include "tests/support/rpc/loop.h"

namespace simurgh::rpc {
namespace {

using testing::Loop;

TEST_CASE("RunOn runs on its executor and resumes on the caller's") {
  Loop loop;  // Outlives the threads that resume coroutines on it.
  asio::thread_pool pool(2);
  asio::io_context other;
  const auto work = asio::make_work_guard(other);
  std::thread thread([&] { other.run(); });
  const auto here = std::this_thread::get_id();
  const auto visit = [&](asio::any_io_executor executor) -> awaitable<void> {
    for (int i = 0; i < 100; ++i) {
      const auto there = co_await RunOn(executor, [] { return std::this_thread::get_id(); });
      CHECK(there != here);
      CHECK(std::this_thread::get_id() == here);
    }
  };
  loop.Run(visit(pool.get_executor()));
  loop.Run(visit(other.get_executor()));
  other.stop();
  thread.join();
}

TEST_CASE("RunOn passes results of every kind") {
  Loop loop;
  asio::thread_pool pool(1);
  const auto visit = [&]() -> awaitable<void> {
    int runs = 0;
    co_await RunOn(pool.get_executor(), [&] { ++runs; });
    CHECK(runs == 1);
    const auto moved = std::make_shared<int>(5);
    const std::unique_ptr<int> result =
        co_await RunOn(pool.get_executor(),
                       [own = std::make_unique<int>(*moved)]() mutable { return std::move(own); });
    CHECK(*result == 5);
    const StatusOr<std::string> failed = co_await RunOn(
        pool.get_executor(), []() -> StatusOr<std::string> { return absl::NotFoundError("x"); });
    CHECK(absl::IsNotFound(failed.status()));
    std::string caught;
    try {
      co_await RunOn(pool.get_executor(), [] { throw std::runtime_error("thrown there"); });
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    CHECK(caught == "thrown there");
  };
  loop.Run(visit());
}

TEST_CASE("a caller cancelled during RunOn resumes after the function has ended") {
  Loop loop;
  asio::thread_pool pool(1);
  asio::cancellation_signal cancel;
  std::promise<void> started, release;
  bool ended = false, resumed = false, threw = false;
  const auto caller = [&]() -> awaitable<void> {
    co_await RunOn(pool.get_executor(), [&] {
      started.set_value();
      release.get_future().wait();
      ended = true;
    });
    CHECK(ended);
    resumed = true;
    co_await RunOn(pool.get_executor(), [] { FAIL("must not start: its caller is cancelled"); });
  };
  asio::co_spawn(loop.context(), caller(),
                 asio::bind_cancellation_slot(cancel.slot(), [&](const std::exception_ptr& error) {
                   threw = absl::IsCancelled(StatusOfException(error));
                 }));
  loop.context().poll();
  started.get_future().wait();
  cancel.emit(asio::cancellation_type::terminal);
  loop.context().poll();
  CHECK_FALSE(resumed);
  release.set_value();
  loop.context().restart();
  loop.context().run();
  CHECK(resumed);
  CHECK(threw);
}

TEST_CASE("WhenAll starts all tasks before it waits for any") {
  Loop loop;
  WaitList all_here(loop.executor());
  int here = 0;
  const auto meet = [&]() -> awaitable<Status> {
    if (++here == 10) {
      all_here.NotifyAll();
    } else {
      co_await all_here.Wait(Clock::time_point::max());
    }
    co_return absl::OkStatus();
  };
  const auto run = [&]() -> awaitable<Status> {
    std::vector<awaitable<Status>> tasks;
    for (int i = 0; i < 10; ++i) tasks.push_back(meet());
    co_return co_await WhenAll(std::move(tasks));
  };
  CHECK(loop.Run(run()) == absl::OkStatus());
  CHECK(loop.Run(WhenAll({})) == absl::OkStatus());
}

TEST_CASE("WhenAll returns the first error in the order of the tasks") {
  Loop loop;
  const auto post = [&]() -> awaitable<void> { co_await asio::post(asio::use_awaitable); };
  const auto late = [&]() -> awaitable<Status> {
    for (int i = 0; i < 5; ++i) co_await post();
    co_return absl::NotFoundError("late, but first in order");
  };
  const auto early = [&]() -> awaitable<Status> { co_return absl::DataLossError("early"); };
  const auto throws = [&]() -> awaitable<Status> {
    co_await post();
    throw std::runtime_error("thrown by a task");
  };
  const auto fine = [&]() -> awaitable<Status> { co_return absl::OkStatus(); };
  const auto of = [&](auto&... tasks) -> awaitable<Status> {
    std::vector<awaitable<Status>> list;
    (list.push_back(tasks()), ...);
    co_return co_await WhenAll(std::move(list));
  };
  CHECK(loop.Run(of(fine, late, early)) == absl::NotFoundError("late, but first in order"));
  CHECK(loop.Run(of(early, late)) == absl::DataLossError("early"));
  const Status thrown = loop.Run(of(fine, throws));
  CHECK(absl::IsInternal(thrown));
  CHECK_THAT(std::string(thrown.message()), Catch::Contains("thrown by a task"));
}

TEST_CASE("WhenAll cancels its tasks with its caller, and still waits for them") {
  Loop loop;
  asio::cancellation_signal cancel;
  WaitList stubborn_may_end(loop.executor());
  bool stubborn_cancelled = false, stubborn_ended = false, ended = false;
  const auto obedient = [&]() -> awaitable<Status> {
    asio::steady_timer forever(loop.executor(), Clock::time_point::max());
    co_await forever.async_wait(asio::use_awaitable);
    co_return absl::OkStatus();
  };
  const auto stubborn = [&]() -> awaitable<Status> {
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await stubborn_may_end.Wait(Clock::time_point::max());
    stubborn_cancelled = true;
    Waiter waiter(loop.executor(), Clock::now() + std::chrono::milliseconds(1));
    co_await waiter.WaitRegardless();
    stubborn_ended = true;
    co_return absl::OkStatus();
  };
  const auto run = [&]() -> awaitable<Status> {
    std::vector<awaitable<Status>> tasks;
    tasks.push_back(stubborn());
    tasks.push_back(obedient());
    const Status status = co_await WhenAll(std::move(tasks));
    CHECK(stubborn_ended);
    co_return status;
  };
  asio::co_spawn(loop.context(), run(),
                 asio::bind_cancellation_slot(cancel.slot(),
                                              [&](const std::exception_ptr& error, Status status) {
                                                CHECK_FALSE(error);
                                                CHECK(absl::IsCancelled(status));
                                                ended = true;
                                              }));
  loop.context().poll();
  CHECK_FALSE(ended);
  cancel.emit(asio::cancellation_type::terminal);
  loop.context().restart();
  loop.context().run();
  CHECK(stubborn_cancelled);
  CHECK(ended);
}

TEST_CASE("a gate waits for its passes or for the deadline") {
  Loop loop;
  Gate gate(loop.executor());
  Gate::Pass first = gate.Enter();
  CHECK(gate.running() == 1);
  CHECK_FALSE(loop.Run(gate.WaitUntilAtMost(0, Clock::now())));
  CHECK(loop.Run(gate.WaitUntilAtMost(1, Clock::time_point::max())));
  const auto leave = [&]() -> awaitable<Status> {
    Gate::Pass taken = std::move(first);
    co_await asio::post(asio::use_awaitable);
    co_return absl::OkStatus();
  };
  const auto wait = [&]() -> awaitable<Status> {
    const bool closed = co_await gate.WaitUntilAtMost(0, Clock::time_point::max());
    CHECK(closed);
    co_return absl::OkStatus();
  };
  const auto both = [&]() -> awaitable<Status> {
    std::vector<awaitable<Status>> tasks;
    tasks.push_back(wait());
    tasks.push_back(leave());
    co_return co_await WhenAll(std::move(tasks));
  };
  CHECK(loop.Run(both()).ok());
  CHECK(gate.running() == 0);
}

}  // namespace
}  // namespace simurgh::rpc
