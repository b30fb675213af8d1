#include "config/yaml_override.h"

#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "config/address.h"
#include "config/diagnostics.h"
#include "config/scalar.h"

namespace simurgh {
namespace {

constexpr size_t kMaxDepth = 16;  // The deepest key of a cluster has 7 components.

Status Malformed(const std::string& place, const std::string& key, const std::string& what,
                 const std::string& remedy) {
  return absl::InvalidArgumentError(ErrorLine(place, key, what, remedy));
}

YamlNode* MapItem(const std::string& key, bool is_last, const std::string& place, YamlNode* map) {
  int index = FindKey(*map, key);
  if (index < 0) {
    index = static_cast<int>(map->keys.size());
    map->keys.emplace_back();
    map->keys.back().kind = YamlNode::Kind::kScalar;
    map->keys.back().text = key;
    map->keys.back().place = place;
    map->items.emplace_back();
    map->items.back().place = place;
  }
  if (is_last) map->keys[index].place = place;
  return &map->items[index];
}

StatusOr<YamlNode*> ListItem(const std::string& component, const std::string& walked,
                             const std::string& place, YamlNode* list) {
  size_t index = 0;
  const char* end = component.data() + component.size();
  const auto [rest, error] = std::from_chars(component.data(), end, index);
  if (error != std::errc() || rest != end || index > list->items.size()) {
    return Malformed(
        place, walked, absl::StrCat("'", component, "' is not an index of this list"),
        absl::StrCat("use 0 to ", list->items.size(), "; ", list->items.size(), " appends"));
  }
  if (index == list->items.size()) {
    list->items.emplace_back();
    list->items.back().place = place;
  }
  return &list->items[index];
}

}  // namespace

Status ApplyOverride(const std::string& override_text, YamlNode* root) {
  const std::string place = absl::StrCat("--set ", override_text);
  const size_t equals = override_text.find('=');
  if (equals == std::string::npos) {
    return Malformed(place, "", "no '=' in the override", "write section.key=value");
  }
  const std::vector<std::string> components = absl::StrSplit(override_text.substr(0, equals), '.');
  if (components.size() > kMaxDepth) {
    return Malformed(place, "", absl::StrCat("more than ", kMaxDepth, " components"),
                     "write section.key=value");
  }
  const std::string text = override_text.substr(equals + 1);
  YamlNode value;
  if (text.starts_with('[') && AddressProblem(text, /*allow_schemes=*/false).empty()) {
    // An IPv6 address, which YAML would read as a list.
    value.kind = YamlNode::Kind::kScalar;
    value.text = text;
    value.place = place;
  } else {
    SIMURGH_ASSIGN_OR_RETURN(value,
                             ParseYaml(text, [&](int /*line*/) { return std::string(place); }));
  }
  YamlNode* node = root;
  std::string walked;
  for (const std::string& component : components) {
    if (component.empty()) {
      return Malformed(place, "", "an empty component in the key", "write section.key=value");
    }
    if (node->kind == YamlNode::Kind::kNull) {
      node->kind = IsDigits(component) ? YamlNode::Kind::kList : YamlNode::Kind::kMap;
    }
    if (node->kind == YamlNode::Kind::kScalar) {
      return Malformed(place, walked, "a value without keys", "shorten the key");
    }
    if (node->kind == YamlNode::Kind::kMap) {
      node = MapItem(component, &component == &components.back(), place, node);
    } else {
      SIMURGH_ASSIGN_OR_RETURN(node, ListItem(component, walked, place, node));
    }
    absl::StrAppend(&walked, walked.empty() ? "" : ".", component);
  }
  const bool is_section = node->kind == YamlNode::Kind::kMap || node->kind == YamlNode::Kind::kList;
  if (is_section && value.kind == YamlNode::Kind::kNull) {
    return Malformed(place, walked, "no value, which would remove all keys of the section",
                     "write section.key=value; {} and [] are an empty section and list");
  }
  *node = std::move(value);
  return absl::OkStatus();
}

}  // namespace simurgh
