#include "config/yaml_node.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "config/diagnostics.h"

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
  };

  YamlNode NewNode(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode node;
    node.kind = kind;
    node.place = place_of_line_(mark.line + 1);
    return node;
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
    YamlNode& parent = open_.back().node;
    const bool is_key =
        parent.kind == YamlNode::Kind::kMap && parent.keys.size() == parent.items.size();
    if (!is_key) {
      parent.items.push_back(std::move(node));
      return;
    }
    if (node.kind != YamlNode::Kind::kScalar) {
      throw YAML::ParserException(mark, "a key that is not text");
    }
    parent.keys.push_back(std::move(node));
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

int FindKey(const YamlNode& node, std::string_view key) {
  const auto found = std::find_if(node.keys.begin(), node.keys.end(),
                                  [&](const YamlNode& candidate) { return candidate.text == key; });
  return found == node.keys.end() ? -1 : static_cast<int>(found - node.keys.begin());
}

StatusOr<YamlNode> ParseYaml(const std::string& text, const PlaceOfLine& place_of_line) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder first(place_of_line);
    if (!parser.HandleNextDocument(first)) {
      YamlNode empty;
      empty.place = place_of_line(1);
      return empty;
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

}  // namespace simurgh
