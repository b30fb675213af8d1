#include "config/diagnostics.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "config/error_line.h"
#include "config/nearest.h"

namespace simurgh {
namespace {

constexpr size_t kMaxShown = 10;

std::string PlaceOf(const YamlNode& root, const std::string& path) {
  const YamlNode* node = &root;
  std::string place = root.place;
  const std::vector<std::string> components = absl::StrSplit(path, '.');
  for (const std::string& component : components) {
    size_t index = 0;
    if (node->kind == YamlNode::Kind::kList) {
      std::from_chars(component.data(), component.data() + component.size(), index);
      if (index >= node->items.size()) break;
      place = node->items[index].place;
    } else {
      const int found = FindKey(*node, component);
      if (found < 0) break;
      index = static_cast<size_t>(found);
      place = node->keys[index].place;
    }
    node = &node->items[index];
  }
  return place;
}

}  // namespace

void Diagnostics::Report(const std::string& path, const std::string& what,
                         const std::string& remedy) {
  ReportAt(PlaceOf(root_, path), path, what, remedy);
}

void Diagnostics::ReportAt(const std::string& place, const std::string& path,
                           const std::string& what, const std::string& remedy) {
  errors_.push_back(ErrorLine(place, path, what, remedy));
}

bool Diagnostics::CheckKnown(const std::string& path, const std::string& noun,
                             const std::string& name, const std::vector<std::string>& known) {
  if (std::ranges::find(known, name) != known.end()) return true;
  Report(path, absl::StrCat("no ", noun, " is named '", name, "'"),
         NearestRemedy(noun, name, known));
  return false;
}

std::string Diagnostics::Where(const std::string& path) const {
  return absl::StrCat(PlaceOf(root_, path), ": ", path);
}

Status Diagnostics::status() const {
  if (errors_.empty()) return absl::OkStatus();
  const size_t shown = std::min(errors_.size(), kMaxShown);
  std::string message = absl::StrJoin(errors_.begin(), errors_.begin() + shown, "\n");
  if (shown < errors_.size()) {
    absl::StrAppend(&message, "\nand ", errors_.size() - shown, " more");
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace simurgh
