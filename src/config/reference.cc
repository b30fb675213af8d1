#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "config/document.h"

namespace simurgh {
namespace {

// `tables.N` for `tables.N.dim`; `tables` for itself.
std::string GroupOf(const std::string& key) { return key.substr(0, key.rfind('.')); }

// Formats values as code, descriptions as text.
std::string Default(const KnownKey& key) {
  const std::string& text = key.fallback;
  const bool is_value = text.find(' ') == text.npos || text.front() == '[';
  const bool is_absent = text == "none" && !key.type.starts_with("one of none");
  if (!is_value || text == "required" || is_absent) return text;
  return absl::StrCat("`", text, "`");
}

}  // namespace

std::string DescribeConfig() {
  const std::vector<KnownKey> keys = KnownKeys();
  std::vector<std::string> groups;
  for (const KnownKey& key : keys) {
    const std::string group = GroupOf(key.key);
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  std::string text;
  for (const std::string& group : groups) {
    absl::StrAppend(&text, "### ", group,
                    "\n\n| key | type | default | meaning |\n|---|---|---|---|\n");
    for (const KnownKey& key : keys) {
      if (GroupOf(key.key) != group) continue;
      absl::StrAppend(&text, "| `", key.key.substr(key.key.rfind('.') + 1), "` | ", key.type, " | ",
                      Default(key), " | ", key.meaning, " |\n");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace simurgh
