#pragma once

#include <optional>
#include <utility>

#include <boost/asio/associated_cancellation_slot.hpp>

#include "rpc/async.h"

namespace simurgh::rpc {

// Lets one coroutine wait for another of the same thread, without a timer or the event loop.
//
// Threads: one. Lifetime: outlives the wait.
class Suspension {
 public:
  Suspension() = default;
  Suspension(const Suspension&) = delete;
  Suspension& operator=(const Suspension&) = delete;

  // Whether it has been resumed; then Wait() must not be called.
  bool over() const { return over_; }

  // Returns when resumed, or when the caller is cancelled. Requires !over() and a caller that has
  // not been cancelled.
  [[nodiscard]] awaitable<void> Wait() {
    return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this](Handler handler) {
          asio::cancellation_slot slot = asio::get_associated_cancellation_slot(handler);
          if (slot.is_connected()) {
            // ResumeLater(), because the slot must not be cleared while it is being called.
            slot.assign([this](asio::cancellation_type /*type*/) { ResumeLater(); });
          }
          handler_.emplace(std::move(handler));
        },
        asio::use_awaitable);
  }

  // Ends the wait. The waiting coroutine runs inside this call until its next wait and may destroy
  // `this`.
  void Resume() {
    over_ = true;
    if (std::optional<Handler> handler = Take()) (*std::move(handler))();
  }

  // The same, but the coroutine runs from the event loop.
  void ResumeLater() {
    over_ = true;
    std::optional<Handler> handler = Take();
    if (!handler) return;
    const asio::any_io_executor executor = asio::get_associated_executor(*handler);
    asio::post(executor, [resume = *std::move(handler)]() mutable { std::move(resume)(); });
  }

  // Requires that no coroutine waits.
  void Reset() { over_ = false; }

  // Destroys the waiting coroutine, if any.
  void Abandon() {
    over_ = true;
    (void)Take();
  }

 private:
  using Handler = asio::async_result<asio::use_awaitable_t<>, void()>::handler_type;

  std::optional<Handler> Take() { return std::exchange(handler_, std::nullopt); }

  std::optional<Handler> handler_;
  bool over_ = false;
};

}  // namespace simurgh::rpc
