#include "tests/simulation/fiber.h"

#include <utility>
#include <vector>

#include "base/check.h"

#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#endif

namespace simurgh::simulation {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

Fiber* current = nullptr;

// The address sanitizer must know the stack that runs. Call them before and after each switch.
void BeforeSwitch([[maybe_unused]] void** left, [[maybe_unused]] const void* stack,
                  [[maybe_unused]] size_t bytes) {
#if __has_feature(address_sanitizer)
  __sanitizer_start_switch_fiber(left, stack, bytes);
#endif
}

void AfterSwitch([[maybe_unused]] void* entered, [[maybe_unused]] const void** stack,
                 [[maybe_unused]] size_t* bytes) {
#if __has_feature(address_sanitizer)
  __sanitizer_finish_switch_fiber(entered, stack, bytes);
#endif
}

// Stacks of ended fibers.
std::vector<std::unique_ptr<std::byte[]>>& FreeStacks() {
  static std::vector<std::unique_ptr<std::byte[]>> stacks;
  return stacks;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  if (FreeStacks().empty()) {
    stack_ = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  } else {
    stack_ = std::move(FreeStacks().back());
    FreeStacks().pop_back();
  }
  ::getcontext(&own_);
  own_.uc_stack.ss_sp = stack_.get();
  own_.uc_stack.ss_size = kStackBytes;
  own_.uc_link = nullptr;
  ::makecontext(&own_, &Fiber::Enter, 0);
}

Fiber::~Fiber() {
  SIMURGH_CHECK(done_);
  FreeStacks().push_back(std::move(stack_));
}

Fiber* Fiber::Current() { return current; }

void Fiber::Enter() {
  Fiber* const self = current;
  AfterSwitch(nullptr, &self->caller_stack_, &self->caller_bytes_);
  self->body_();
  self->body_ = nullptr;
  self->done_ = true;
  BeforeSwitch(nullptr, self->caller_stack_, self->caller_bytes_);
  ::swapcontext(&self->own_, &self->caller_);
}

void Fiber::Resume() {
  SIMURGH_CHECK(!done_ && current != this);
  outer_ = std::exchange(current, this);
  void* left = nullptr;
  BeforeSwitch(&left, stack_.get(), kStackBytes);
  ::swapcontext(&caller_, &own_);
  AfterSwitch(left, nullptr, nullptr);
  current = outer_;
}

void Fiber::Yield() {
  SIMURGH_CHECK(current == this);
  void* left = nullptr;
  BeforeSwitch(&left, caller_stack_, caller_bytes_);
  ::swapcontext(&own_, &caller_);
  AfterSwitch(left, &caller_stack_, &caller_bytes_);
}

}  // namespace simurgh::simulation
