#include "config/yaml_node.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "config/address.h"
#include "config/diagnostics.h"
#include "config/map_reader.h"

namespace simurgh {
namespace {

constexpr char kAlias[] = "an alias (*name) is not supported";

// Builds a YamlNode from yaml-cpp's events. Throws yaml-cpp's exceptions, which ParseYaml catches.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const PlaceOfLine& place_of_line) : place_of_line_(place_of_line) {}

  YamlNode TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Attach(NewNode(YamlNode::Kind::kNull, mark), mark);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    throw YAML::ParserException(mark, kAlias);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = NewNode(YamlNode::Kind::kScalar, mark);
    node.quoted = tag == "!";  // yaml-cpp's tag of a scalar in quotes; a plain one has "?".
    node.text = value;
    Attach(std::move(node), mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    Open(YamlNode::Kind::kList, mark);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    Open(YamlNode::Kind::kMap, mark);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct OpenNode {
    YamlNode node;
    YAML::Mark mark;
    YamlNode key = {};  // Map: key of the next value, if has_key.
    bool has_key = false;
  };

  YamlNode NewNode(YamlNode::Kind kind, const YAML::Mark& mark) {
    return {.kind = kind, .place = place_of_line_(mark.line + 1)};
  }

  void Open(YamlNode::Kind kind, const YAML::Mark& mark) {
    open_.push_back({NewNode(kind, mark), mark});
  }

  void Close() {
    OpenNode done = std::move(open_.back());
    open_.pop_back();
    Attach(std::move(done.node), done.mark);
  }

  void Attach(YamlNode node, const YAML::Mark& mark) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kMap && !std::exchange(parent.has_key, false)) {
      if (node.kind != YamlNode::Kind::kScalar) {
        throw YAML::ParserException(mark, "a key that is not text");
      }
      parent.key = std::move(node);
      parent.has_key = true;
      return;
    }
    node.key = std::move(parent.key.text);
    node.key_place = std::move(parent.key.place);
    parent.node.items.push_back(std::move(node));
  }

  const PlaceOfLine& place_of_line_;
  std::vector<OpenNode> open_;
  YamlNode root_;
};

Status SyntaxError(const std::string& place, const std::string& what, const std::string& remedy) {
  return absl::InvalidArgumentError(ErrorLine(place, "YAML syntax", what, remedy));
}

std::string SyntaxRemedy(const std::string& text, const YAML::Exception& error) {
  if (error.msg == kAlias || absl::StrContains(error.msg, "anchor")) {
    return "write the value out, or put it in quotes";
  }
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const auto line = static_cast<size_t>(std::max(error.mark.line, 0));
  if (line < lines.size() && absl::StrContains(lines[line], '\t')) {
    return "the line contains a tab; indent with spaces";
  }
  // An error without a mark has line and column -1.
  return absl::StrCat("look at column ", std::max(error.mark.column, 0) + 1,
                      ": indentation, quotes, brackets");
}

}  // namespace

const YamlNode* FindKey(const YamlNode& node, std::string_view key) {
  if (node.kind != YamlNode::Kind::kMap) return nullptr;
  const auto found = std::ranges::find(node.items, key, &YamlNode::key);
  return found == node.items.end() ? nullptr : &*found;
}

YamlNode* FindKey(YamlNode& node, std::string_view key) {
  return const_cast<YamlNode*>(FindKey(std::as_const(node), key));
}

StatusOr<YamlNode> ParseYaml(const std::string& text, const PlaceOfLine& place_of_line) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder first(place_of_line);
    if (!parser.HandleNextDocument(first)) {
      return YamlNode{.place = place_of_line(1)};
    }
    TreeBuilder second(place_of_line);
    if (parser.HandleNextDocument(second)) {
      return SyntaxError(second.TakeRoot().place, "a second document",
                         "keep one and remove the line ---");
    }
    return first.TakeRoot();
  } catch (const YAML::Exception& error) {
    return SyntaxError(place_of_line(std::max(error.mark.line, 0) + 1), error.msg,
                       SyntaxRemedy(text, error));
  } catch (const std::exception& error) {
    return SyntaxError(place_of_line(1), error.what(), "look at indentation, quotes, brackets");
  }
}

namespace {

constexpr size_t kMaxDepth = 16;  // The deepest key of a cluster has 7 components.

Status Malformed(const std::string& place, const std::string& key, const std::string& what,
                 const std::string& remedy) {
  return absl::InvalidArgumentError(ErrorLine(place, key, what, remedy));
}

YamlNode* MapItem(const std::string& key, bool is_last, const std::string& place, YamlNode* map) {
  YamlNode* item = FindKey(*map, key);
  if (item == nullptr) {
    item = &map->items.emplace_back(YamlNode{.place = place, .key = key, .key_place = place});
  }
  if (is_last) item->key_place = place;
  return item;
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
    list->items.push_back({.place = place});
  }
  return &list->items[index];
}

}  // namespace

Status ApplyOverride(const std::string& override_text, YamlNode* root) {
  // Each node keeps its place, so a long list must not be in all of them.
  constexpr size_t kMaxShown = 200;
  const std::string place = absl::StrCat("--set ", override_text.substr(0, kMaxShown),
                                         override_text.size() > kMaxShown ? "..." : "");
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
    value = {.kind = YamlNode::Kind::kScalar, .text = text, .place = place};
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
  value.key = std::move(node->key);
  value.key_place = std::move(node->key_place);
  *node = std::move(value);
  return absl::OkStatus();
}

}  // namespace simurgh
