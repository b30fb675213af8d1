#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/encoded/bytes.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Encoding of the ids of a list. EncodeIdList chooses the shortest.
enum class IdListCoding : uint8_t {
  kPlain,        // 8 bytes each, outside the codes.
  kOffsets,      // Packed differences from the smallest id; for a small range.
  kDifferences,  // Packed differences from the previous id, zigzag; for nearly sorted ids.
};

// Receives the encoded lists. Heads are separate, because the decoder needs all of them first.
struct IdListWriter {
  ByteWriter heads;
  ByteWriter packed;
  std::vector<uint64_t> plain;
};

void EncodeIdList(std::span<const uint64_t> ids, IdListWriter& out);

struct IdListHead {
  uint64_t count = 0;
  IdListCoding coding = IdListCoding::kPlain;
};

// Errors: INVALID_ARGUMENT for more than `most` ids, the remaining occurrences, or an unknown
// coding.
StatusOr<IdListHead> ReadIdListHead(ByteReader& heads, uint64_t most);

// Requires a coding other than kPlain and ids.size() == head.count.
// Errors: INVALID_ARGUMENT.
Status ReadPackedIds(IdListCoding coding, ByteReader& packed, std::span<uint64_t> ids);

}  // namespace simurgh
