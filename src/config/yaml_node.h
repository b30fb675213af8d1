#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace simurgh {

// A YAML document with the place of each value.
struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  bool quoted = false;         // Scalar: in quotes, so it is text.
  std::string text = {};       // Scalar.
  std::string place = {};      // "<file>:<line>", or the override.
  std::string key = {};        // Key of a value in a map.
  std::string key_place = {};  // Place of the key, in the form of `place`.
  std::vector<YamlNode> items =
      {};  // List: elements. Map: values in file order, also of repeated keys.
};

// Returns the first value with this key of a map; null if there is none, or if the node is no map.
const YamlNode* FindKey(const YamlNode& node, std::string_view key);
YamlNode* FindKey(YamlNode& node, std::string_view key);

// Returns the place of a value on this line (from 1) of the text.
using PlaceOfLine = std::function<std::string(int line)>;

// Parses one document; an empty text is a null node. Refuses aliases, so that every value has one
// place, and keys that are not text.
// Errors: INVALID_ARGUMENT "<place>: YAML syntax: <what>; <remedy>".
StatusOr<YamlNode> ParseYaml(const std::string& text, const PlaceOfLine& place_of_line);

// Sets the value of "section.key=value", which is YAML, in the document. Numbers index lists; the
// index after the last appends, which makes a missing list. Adds missing keys; reading the document
// reports unknown ones. New values have the place "--set section.key=value". Errors:
// INVALID_ARGUMENT for a malformed override, or one that a value in the document contradicts.
Status ApplyOverride(const std::string& override_text, YamlNode* root);

}  // namespace simurgh
