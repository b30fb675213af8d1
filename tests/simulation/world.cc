#include "tests/simulation/world.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/hash.h"

namespace simurgh::simulation {
namespace {

constexpr size_t kLastLines = 60;

}  // namespace

void World::After(Microseconds delay, std::function<void()> event) {
  queue_.push({now_ + delay, random(), added_++, std::move(event)});
}

bool World::RunOne() {
  if (queue_.empty()) return false;
  const std::function<void()> run = queue_.top().run;
  now_ = queue_.top().at;
  queue_.pop();
  ++events_;
  digest_ = Mix64(digest_ ^ now_);
  run();
  return true;
}

std::shared_ptr<Fiber> World::Start(Process& process, std::function<void()> body) {
  auto fiber = std::make_shared<Fiber>(std::move(body));
  std::erase_if(process.fibers, [](const auto& one) { return one->done(); });
  process.fibers.push_back(fiber);
  After(1, [fiber, &process] {
    if (!fiber->done() && process.alive) fiber->Resume();
  });
  return fiber;
}

bool World::Pause(Process& process, Microseconds delay) {
  if (!process.alive) return false;
  Microseconds wake = now_ + delay;
  do {
    Fiber* const self = Fiber::Current();
    bool woken = false;
    // The event may outlive the fiber, if the process dies.
    std::weak_ptr<Fiber> weak;
    for (const auto& fiber : process.fibers) {
      if (fiber.get() == self) weak = fiber;
    }
    const auto flag = std::make_shared<bool>(false);
    After(wake - now_, [weak, flag] {
      *flag = true;
      if (const auto fiber = weak.lock(); fiber != nullptr && !fiber->done()) fiber->Resume();
    });
    while (!woken && process.alive) {
      self->Yield();
      woken = *flag;
    }
    wake = process.paused_until;
  } while (process.alive && wake > now_);
  return process.alive;
}

void World::Drain(Process& process) {
  for (const auto& fiber : process.fibers) {
    while (!fiber->done()) fiber->Resume();
  }
}

void World::Fail(const std::string& problem) {
  if (problem_.empty()) problem_ = problem;
  Note(absl::StrCat("FAILED: ", problem));
}

void World::Note(const std::string& line) {
  std::string stamped = absl::StrCat("[", now_, "] ", line);
  digest_ = Mix64(digest_ ^ HashBytes(stamped));
  if (prints_) std::printf("%s\n", stamped.c_str());
  lines_.push_back(std::move(stamped));
  if (lines_.size() > kLastLines) lines_.pop_front();
}

}  // namespace simurgh::simulation
