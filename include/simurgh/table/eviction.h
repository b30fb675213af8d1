#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace simurgh {

// Why a row had to go. Where several reasons hold, the first of this order but for the first two,
// which are only named when no other holds.
enum class EvictionCause : uint8_t {
  kCapacity,   // Least recently used, when its table was full.
  kMemory,     // Least recently used, when the server's memory was.
  kIdleSteps,  // Not pulled for so many steps.
  kIdleTime,   // Not pulled for so long.
  kLowUse,     // Pulled too seldom, and not of late.
  kSmallNorm,  // Weights close to zero, and not pulled of late.
};
inline constexpr size_t kEvictionCauses = 6;
inline constexpr std::array<const char*, kEvictionCauses> kEvictionCauseNames = {
    "capacity", "memory", "idle_steps", "idle_time", "low_use", "small_norm"};

// Told of every row that a table lets go, before its memory is used again.
//
// Threads: called by the table's owner, within a pull. Must not call the table.
class EvictionListener {
 public:
  virtual ~EvictionListener() = default;
  virtual void RowEvicted(uint64_t id, EvictionCause cause) = 0;
};

}  // namespace simurgh
