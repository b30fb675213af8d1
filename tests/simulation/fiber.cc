#include "tests/simulation/fiber.h"

#include <utility>
#include <vector>

#include "simurgh/base/check.h"

namespace simurgh::simulation {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

Fiber* current = nullptr;

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
  self->body_();
  self->body_ = nullptr;
  self->done_ = true;
  ::swapcontext(&self->own_, &self->caller_);
}

void Fiber::Resume() {
  SIMURGH_CHECK(!done_ && current != this);
  outer_ = std::exchange(current, this);
  ::swapcontext(&caller_, &own_);
  current = outer_;
}

void Fiber::Yield() {
  SIMURGH_CHECK(current == this);
  ::swapcontext(&own_, &caller_);
}

}  // namespace simurgh::simulation
