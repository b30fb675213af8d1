#pragma once

// The plan of each call, which both ends derive from the call's number.

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
  uint32_t metadata_bytes = 0;  // After the call's number.
  std::vector<uint32_t> segments;
  bool in_place = false;  // Produced in Allocate().
  bool allocate = false;  // Received into kAllocate and kept for a while.
};

struct CallPlan {
  Act act = Act::kAnswer;
  uint32_t hops = 0;  // Times that the handler yields.
  PlannedMessage request;
  PlannedMessage response;
  bool borrowed = false;  // The request's bytes have no owner.
  std::optional<std::chrono::microseconds> deadline;
  std::optional<std::chrono::microseconds> cancel;  // When the caller cancels.
};

// The plan of one call. Most are small, one in a thousand has megabytes, some fail in each way.
CallPlan PlanOf(uint64_t seed, uint64_t id);

enum class Direction : uint8_t { kRequest, kResponse };

// The metadata of a call: its number, then bytes unique to the call.
std::vector<std::byte> MetadataOf(const PlannedMessage& message, uint64_t id, Direction direction);
// The call number in the metadata, if it is long enough.
std::optional<uint64_t> IdOf(std::span<const std::byte> metadata);

// The content of segment `index`: a range of a pool of random bytes, different for every segment.
std::span<const std::byte> ContentOf(const PlannedMessage& message, uint64_t id,
                                     Direction direction, size_t index);

}  // namespace simurgh::rpc
