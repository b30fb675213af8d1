#include "simurgh/base/hash.h"

#include <xxhash.h>

namespace simurgh {

uint64_t HashBytes(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace simurgh
