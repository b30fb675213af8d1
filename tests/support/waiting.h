#pragma once

#include <chrono>
#include <thread>

// Waiting in tests. Time decides no result: a wait for a condition ends when it holds, and its
// limit is for a program that hangs, on a machine as slow as a sanitizer and other processes make
// it.
namespace simurgh::testing {

inline constexpr std::chrono::minutes kHangs{4};

// Waits until another thread or process has made the condition hold. Returns false after `limit`.
template <typename Condition>
bool Eventually(const Condition& holds, std::chrono::milliseconds limit = kHangs) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Lets others run for a while: before a fault at a random time, as the delay of a slow device, or
// before a check that something has not happened, which passes on a slow machine too.
inline void Pause(std::chrono::microseconds time) { std::this_thread::sleep_for(time); }

}  // namespace simurgh::testing
