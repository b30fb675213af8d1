#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "rpc/async.h"

namespace simurgh {

// Of so many things, how many have not ended.
//
// Threads: Down() from any.
class Latch {
 public:
  explicit Latch(size_t count) : left_(count) {}
  virtual ~Latch() = default;

  // One more has ended, with all that it did visible to whoever waits. With the last one the caller
  // goes on, elsewhere: nothing of it may be touched any more.
  void Down() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) Resume();
  }

 private:
  virtual void Resume() = 0;

  std::atomic<size_t> left_;
};

// Calls start(latch), which begins `count` things elsewhere, and resumes the caller where it
// was when the latch has been told of the end of each. The caller is not cancelled meanwhile.
// Requires count > 0.
//
// Lifetime: the caller's context runs until then.
template <typename Start>
[[nodiscard]] rpc::awaitable<void> CountDown(size_t count, const Start& start) {
  auto initiate = [&](auto resume) {
    using Handler = decltype(resume);
    using Executor = rpc::asio::associated_executor_t<Handler>;

    class Waiting : public Latch {
     public:
      Waiting(size_t things, Handler handler)
          : Latch(things),
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
