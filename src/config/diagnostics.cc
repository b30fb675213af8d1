#include "config/diagnostics.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace simurgh {
namespace {

constexpr size_t kMaxErrors = 10;

std::string Legible(std::string text) {
  constexpr size_t kMaxLength = 300;
  if (text.size() > kMaxLength) text = text.substr(0, kMaxLength) + "...";
  std::replace_if(text.begin(), text.end(), absl::ascii_iscntrl, '?');
  return text;
}

// Returns Levenshtein's distance. Only one row of its table is in memory.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string PlaceOf(const YamlNode& root, const std::string& path) {
  const YamlNode* node = &root;
  std::string place = root.place;
  const std::vector<std::string> components = absl::StrSplit(path, '.');
  for (const std::string& component : components) {
    const bool is_list = node->kind == YamlNode::Kind::kList;
    if (is_list) {
      size_t index = 0;
      std::from_chars(component.data(), component.data() + component.size(), index);
      node = index < node->items.size() ? &node->items[index] : nullptr;
    } else {
      node = FindKey(*node, component);
    }
    if (node == nullptr) break;
    place = is_list ? node->place : node->key_place;
  }
  return place;
}

}  // namespace

std::string ErrorLine(const std::string& place, const std::string& key, const std::string& what,
                      const std::string& remedy) {
  return absl::StrCat(Legible(place), ": ", key.empty() ? "" : absl::StrCat(Legible(key), ": "),
                      Legible(what), "; ", Legible(remedy));
}

std::string Nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t smallest = (word.size() + 2) / 3 + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance =
        EditDistance(absl::AsciiStrToLower(word), absl::AsciiStrToLower(candidate));
    if (distance < smallest) {
      smallest = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string NearestRemedy(const std::string& noun, const std::string& word,
                          const std::vector<std::string>& candidates) {
  constexpr size_t kMaxShown = 12;
  const std::string nearest = Nearest(word, candidates);
  if (!nearest.empty()) return absl::StrCat("the nearest ", noun, " is '", nearest, "'");
  if (candidates.empty()) return absl::StrCat("there is no ", noun);
  const size_t shown = std::min(candidates.size(), kMaxShown);
  return absl::StrCat("use one of ",
                      absl::StrJoin(candidates.begin(), candidates.begin() + shown, ", "),
                      shown < candidates.size() ? ", ..." : "");
}

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
  const size_t shown = std::min(errors_.size(), kMaxErrors);
  std::string message = absl::StrJoin(errors_.begin(), errors_.begin() + shown, "\n");
  if (shown < errors_.size()) {
    absl::StrAppend(&message, "\nand ", errors_.size() - shown, " more");
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace simurgh
