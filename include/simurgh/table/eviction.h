#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace simurgh {

// Why a row was evicted. kCapacity and kMemory apply only when no rule does; of several rules, the
// first in this order counts.
enum class EvictionCause : uint8_t {
  kCapacity,   // Least recently used row of a full table.
  kMemory,     // Least recently used row, at the server's memory limit.
  kIdleSteps,  // Rule eviction.idle_steps, and likewise below.
  kIdleTime,
  kLowUse,
  kSmallNorm,
};
inline constexpr size_t kEvictionCauses = 6;
inline constexpr std::array<const char*, kEvictionCauses> kEvictionCauseNames = {
    "capacity", "memory", "idle_steps", "idle_time", "low_use", "small_norm"};

}  // namespace simurgh
