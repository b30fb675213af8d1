#pragma once

// What every call of a soak does, so that both ends know it from the call's number alone.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace simurgh::rpc {

enum class Act : uint8_t {
  kAnswer,
  kFail,            // The handler returns an error.
  kThrow,           // The handler throws.
  kHang,            // The handler waits until it is cancelled.
  kRefuseRequest,   // The server's placement refuses.
  kRefuseResponse,  // The client's placement refuses.
  kUnknownMethod,
};

// One direction of a call.
struct PlannedMessage {
  uint32_t metadata_bytes = 0;  // Behind the call's number.
  std::vector<uint32_t> segments;
  bool in_place = false;  // Produced in memory that the library gives.
  bool allocate = false;  // Taken where the library has them, and kept for a while.
};

struct CallPlan {
  Act act = Act::kAnswer;
  uint32_t hops = 0;  // How often the handler lets others run before it ends.
  PlannedMessage request;
  PlannedMessage response;
  bool borrowed = false;  // The request's bytes have no owner.
  std::optional<std::chrono::microseconds> deadline;
  std::optional<std::chrono::microseconds> cancel;  // When the caller gives up.
};

// The plan of one call. Most are small, one in a thousand has megabytes; every kind of failure is
// among them.
CallPlan PlanOf(uint64_t seed, uint64_t id);

enum class Direction : uint8_t { kRequest, kResponse };

// The metadata of a call: its number first, then bytes that only this call has.
std::vector<std::byte> MetadataOf(const PlannedMessage& message, uint64_t id, Direction direction);
// The number in it, if it is long enough.
std::optional<uint64_t> IdOf(std::span<const std::byte> metadata);

// What segment `index` of a call holds: a stretch of a pool of random bytes, elsewhere for every
// segment of every call.
std::span<const std::byte> ContentOf(const PlannedMessage& message, uint64_t id,
                                     Direction direction, size_t index);

}  // namespace simurgh::rpc
