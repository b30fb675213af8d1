#pragma once

// Payload in shared memory.
//
// Each end writes its own region and its own board; the peer maps both to read. A frame names
// segments of the sender's region. The receiver borrows such a segment: it reads the bytes until it
// stores the segment's generation in the segment's slot of its board. The sender reads nothing but
// that board from the peer, so a false board harms only what is sent to its owner.

#include <cstddef>
#include <cstdint>

namespace simurgh::rpc {

// Alignment of borrowed bytes, so that they can be used in place.
inline constexpr uint64_t kBorrowAlignment = 64;

// Laid out as on the wire.
struct BorrowedSegment {
  uint64_t offset = 0;      // In the sender's region; a multiple of kBorrowAlignment.
  uint32_t slot = 0;        // Below kMaxBorrowedSegments, or kNotBorrowed.
  uint32_t generation = 0;  // Distinguishes successive uses of the slot.
};
static_assert(sizeof(BorrowedSegment) == 16 && alignof(BorrowedSegment) == 8);

// The slot of a segment whose bytes are in the frame.
inline constexpr uint32_t kNotBorrowed = 0xffff'ffff;

inline constexpr uint32_t kMaxBorrowedSegments = 4'096;  // Maximum per region at a time.
inline constexpr size_t kBoardBytes = kMaxBorrowedSegments * sizeof(uint32_t);

// Blocks of a region are whole pages, so that their pages can be released to the system.
inline constexpr uint64_t kPageBytes = 4'096;

}  // namespace simurgh::rpc
