#include "services/serving/problems.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "simurgh/base/settings.h"

namespace simurgh {

std::string Problems::Text() const {
  std::string text = absl::StrJoin(shown_, "\n");
  if (count_ > shown_.size()) absl::StrAppend(&text, "\nand ", count_ - shown_.size(), " more");
  return text;
}

std::string Shown(std::string_view value) {
  constexpr size_t kMaxBytes = 64;
  const bool is_cut = value.size() > kMaxBytes;
  return absl::StrCat("'", PrintableLine(std::string(value.substr(0, kMaxBytes))),
                      is_cut ? "..." : "", "'");
}

}  // namespace simurgh
