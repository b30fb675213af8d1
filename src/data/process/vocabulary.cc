#include "data/process/vocabulary.h"

#include "data/process/hashing.h"
#include "simurgh/base/check.h"

namespace simurgh {

Vocabulary::Vocabulary(const std::vector<std::string>& words, uint64_t oov_ids, uint64_t seed)
    : oov_ids_(oov_ids), seed_(seed) {
  for (const std::string& word : words) ids_.emplace(word, ids_.size());
  SIMURGH_CHECK_EQ(ids_.size(), words.size());
}

std::optional<uint64_t> Vocabulary::IdOf(std::string_view text) const {
  const auto found = ids_.find(absl::string_view(text.data(), text.size()));
  if (found != ids_.end()) return found->second;
  if (oov_ids_ == 0) return std::nullopt;
  return ids_.size() + HashText(text, seed_) % oov_ids_;
}

}  // namespace simurgh
