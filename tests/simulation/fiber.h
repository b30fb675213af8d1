#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <ucontext.h>

namespace simurgh::simulation {

// A function with its own stack, which runs piece by piece in the caller's thread.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();  // Requires done().
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The fiber that runs; null outside of all.
  static Fiber* Current();

  // Runs the function until its next Yield() or its end. Requires a caller outside of it.
  void Resume();
  // Returns to the caller of Resume(). Requires that this is the current fiber.
  void Yield();

  bool done() const { return done_; }

 private:
  static void Enter();

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t own_{};
  ucontext_t caller_{};
  const void* caller_stack_ = nullptr;  // Of the caller of Resume(), for the address sanitizer.
  size_t caller_bytes_ = 0;
  Fiber* outer_ = nullptr;  // The fiber that has resumed this one.
  bool done_ = false;
};

}  // namespace simurgh::simulation
