#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "rpc/async.h"

namespace simurgh {

// Counts down to zero and then resumes a coroutine.
//
// Threads: any.
class Latch {
 public:
  explicit Latch(size_t count) : left_(count) {}
  virtual ~Latch() = default;

  // Earlier writes of the caller are visible to the resumed coroutine. After the last call the
  // coroutine runs on its own executor, so the caller must not touch its state any more.
  void Down() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) Resume();
  }

 private:
  virtual void Resume() = 0;

  std::atomic<size_t> left_;
};

// Calls start(latch) and resumes the caller on its executor after `count` calls of latch->Down().
// The wait cannot be cancelled. Requires count > 0.
//
// Lifetime: the caller's context must outlive the threads that call Down(): posting to it touches
// it until the post returns, when the coroutine may have run already.
template <typename Start>
[[nodiscard]] rpc::awaitable<void> AwaitLatch(size_t count, const Start& start) {
  auto initiate = [&](auto resume) {
    using Handler = decltype(resume);
    using Executor = rpc::asio::associated_executor_t<Handler>;

    class Waiting : public Latch {
     public:
      Waiting(size_t downs, Handler handler)
          : Latch(downs),
            executor_(rpc::asio::get_associated_executor(handler)),
            guard_(executor_),
            handler_(std::move(handler)) {}

     private:
      void Resume() override {
        rpc::asio::post(executor_,
                        [guard = std::move(guard_), handler = std::move(handler_)]() mutable {
                          std::move(handler)();
                        });
      }

      const Executor executor_;
      rpc::asio::executor_work_guard<Executor> guard_;
      Handler handler_;
    };

    start(std::shared_ptr<Latch>(std::make_shared<Waiting>(count, std::move(resume))));
  };
  co_await rpc::asio::async_initiate<const rpc::asio::use_awaitable_t<>, void()>(
      std::move(initiate), rpc::asio::use_awaitable);
}

}  // namespace simurgh
