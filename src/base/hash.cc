#include "base/hash.h"

#include <xxhash.h>

#include "base/check.h"

namespace simurgh {

uint64_t HashBytes(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

ByteHasher::ByteHasher()
    : state_(XXH3_createState(), [](XXH3_state_s* state) { XXH3_freeState(state); }) {
  SIMURGH_CHECK(state_ != nullptr) << "out of memory";
  XXH3_64bits_reset(state_.get());
}

void ByteHasher::Update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

uint64_t ByteHasher::Finish() {
  const uint64_t hash = XXH3_64bits_digest(state_.get());
  XXH3_64bits_reset(state_.get());
  return hash;
}

}  // namespace simurgh
