#include "simurgh/data/hash_stack.h"

#include <bit>
#include <cstring>

#include <farmhash.h>

#include "simurgh/base/check.h"

namespace simurgh {

static_assert(std::endian::native == std::endian::little, "hashes are of little-endian bytes");

void HashStackRows(const HashStackConfig& config, uint64_t id, std::span<uint64_t> rows) {
  SIMURGH_CHECK_EQ(rows.size(), config.rounds);
  uint64_t hash = id;
  for (size_t round = 0; round < rows.size(); ++round) {
    char bytes[sizeof(hash)];
    std::memcpy(bytes, &hash, sizeof(hash));
    hash = util::Fingerprint64(bytes, sizeof(bytes));
    rows[round] = hash % config.buckets + round * config.buckets;
  }
}

}  // namespace simurgh
