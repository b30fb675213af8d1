#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace simurgh {

// Known texts by their place; the others share a few ids behind them.
//
// Threads: immutable.
class Vocabulary {
 public:
  // Requires distinct words. oov_ids: of texts that are no word; 0: they have none.
  Vocabulary(const std::vector<std::string>& words, uint64_t oov_ids, uint64_t seed);

  // 0 to words - 1, or words + hash of the text % oov_ids, or nothing.
  std::optional<uint64_t> IdOf(std::string_view text) const;

 private:
  absl::flat_hash_map<std::string, uint64_t> ids_;
  uint64_t oov_ids_;
  uint64_t seed_;
};

}  // namespace simurgh
