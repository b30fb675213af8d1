#pragma once

// How one end shows the other payload that lies in shared memory.
//
// Each end owns a region that it alone writes, and a board that it alone writes too. A frame names
// loans of the sender's region: the receiver may read those bytes until it writes the loan's
// generation into the loan's slot of its own board. The sender reads that board and nothing else
// from the peer, so a peer that lies about its board spoils only what is sent to itself.

#include <cstddef>
#include <cstdint>

namespace simurgh::rpc {

// Lent bytes begin at a multiple of this, so that whoever takes them where they lie can use them.
inline constexpr uint64_t kBorrowAlignment = 64;

// Laid out as on the wire.
struct BorrowedSegment {
  uint64_t offset = 0;      // In the sender's region; a multiple of kBorrowAlignment.
  uint32_t slot = 0;        // Below kMaxBorrowedSegments; names the loan while it lasts.
  uint32_t generation = 0;  // Tells it from earlier loans of the slot.
};
static_assert(sizeof(BorrowedSegment) == 16 && alignof(BorrowedSegment) == 8);

// The slot of a segment that is not lent but follows in the frame.
inline constexpr uint32_t kNotLent = 0xffff'ffff;

inline constexpr uint32_t kMaxBorrowedSegments = 4'096;  // At a time, of one region.
inline constexpr size_t kBoardBytes = kMaxBorrowedSegments * sizeof(uint32_t);

// Blocks of a region begin and end at pages, so that they can be given back to the system.
inline constexpr uint64_t kPageBytes = 4'096;

}  // namespace simurgh::rpc
