#include "data/row_parser.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace simurgh {

std::string Quoted(std::string_view cell) {
  constexpr size_t kShownBytes = 64;
  const std::string_view shown = cell.substr(0, kShownBytes);
  return absl::StrCat("'", absl::CHexEscape(absl::string_view(shown.data(), shown.size())),
                      shown.size() < cell.size() ? "..." : "", "'");
}

}  // namespace simurgh
