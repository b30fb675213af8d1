#include <chrono>
#include <functional>
#include <thread>

#include <catch2/catch.hpp>

#include "rpc/async.h"

namespace simurgh::rpc {
namespace {

using std::chrono::microseconds;

// Both modes, and a spin that ends before most events.
microseconds AnySpin() { return GENERATE(microseconds(0), microseconds(1), microseconds(10'000)); }

TEST_CASE("an event loop runs what other threads post, whether it spins or sleeps") {
  const microseconds max_spin = AnySpin();
  CAPTURE(max_spin.count());
  asio::io_context first;
  asio::io_context second;
  const auto first_work = asio::make_work_guard(first);
  const auto second_work = asio::make_work_guard(second);
  std::thread thread([&] { RunEventLoop(second, max_spin); });
  constexpr int kRounds = 2000;
  int rounds = 0;
  std::function<void()> send = [&] {
    asio::post(second, [&] {
      asio::post(first, [&] {
        if (++rounds < kRounds) return send();
        first.stop();
        second.stop();
      });
    });
  };
  asio::post(first, send);
  RunEventLoop(first, max_spin);
  thread.join();
  CHECK(rounds == kRounds);
}

TEST_CASE("an event loop returns when it has no work left") {
  const microseconds max_spin = AnySpin();
  asio::io_context context;
  asio::steady_timer timer(context, std::chrono::milliseconds(2));
  bool expired = false;
  timer.async_wait([&](boost::system::error_code) { expired = true; });
  RunEventLoop(context, max_spin);
  CHECK(expired);
}

TEST_CASE("an idle event loop returns when another thread stops it") {
  const microseconds max_spin = AnySpin();
  asio::io_context context;
  const auto work = asio::make_work_guard(context);
  std::thread thread([&] { RunEventLoop(context, max_spin); });
  context.stop();
  thread.join();
  CHECK(context.stopped());
}

TEST_CASE("an event loop that spins runs events during a long wait") {
  asio::io_context context;
  const auto work = asio::make_work_guard(context);
  std::thread thread([&] {
    const LongWait wait;
    RunEventLoop(context, microseconds(10'000));
  });
  int events = 0;
  for (int i = 0; i < 100; ++i) {
    asio::post(context, [&] {
      if (++events == 100) context.stop();
    });
  }
  thread.join();
  CHECK(events == 100);
  CHECK(!LongWait::any());  // Of this thread.
}

}  // namespace
}  // namespace simurgh::rpc
