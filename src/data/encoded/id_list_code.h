#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/encoded/bytes.h"
#include "simurgh/base/status.h"

namespace simurgh {

// How the ids of a list are written; EncodeIdList takes what is fewest bytes.
enum class IdListCoding : uint8_t {
  kPlain,        // 8 bytes each, apart from the codes.
  kOffsets,      // Packed: how far above the smallest; for ids of a small range.
  kDifferences,  // Packed, zigzag: from id to id; for ids that come nearly in order.
};

// Where lists are written to: what must be known before ids have a place, and the ids.
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

// Errors: INVALID_ARGUMENT for more than `most` ids, the occurrences that are left, or an unknown
// coding.
StatusOr<IdListHead> ReadIdListHead(ByteReader& heads, uint64_t most);

// Requires a coding other than kPlain and ids.size() == head.count.
// Errors: INVALID_ARGUMENT.
Status ReadPackedIds(IdListCoding coding, ByteReader& packed, std::span<uint64_t> ids);

}  // namespace simurgh
