#pragma once

#include <cstdint>

namespace simurgh::api {

// Method numbers on the wire; they never change their meaning.
inline constexpr uint32_t kPullRows = 0x0101;     // embedding-ps
inline constexpr uint32_t kPushRows = 0x0102;     // embedding-ps
inline constexpr uint32_t kSubmitBatch = 0x0201;  // embedding-worker
inline constexpr uint32_t kPullBatch = 0x0202;    // embedding-worker
inline constexpr uint32_t kPushBatch = 0x0203;    // embedding-worker

}  // namespace simurgh::api
