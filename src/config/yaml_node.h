#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh {

// A YAML document as plain data that remembers where each value came from.
struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  bool quoted = false;          // Scalar: written in quotes, so it is text whatever it looks like.
  std::string text;             // Scalar.
  std::string place;            // "<file>:<line>", or the override that set it.
  std::vector<YamlNode> keys;   // Map: scalars, in the order of the file; repeated keys are kept.
  std::vector<YamlNode> items;  // List: its elements. Map: its values, one a key.
};

// Index of the first key that reads `key`, or -1; -1 for anything but a map.
int FindKey(const YamlNode& node, std::string_view key);

// Where a value is said to be when it stands on this line (from 1) of the text.
using PlaceOfLine = std::function<std::string(int line)>;

// Parses one document; an empty text is a null node. Aliases and keys that are not plain text are
// refused: a configuration has no use for them, and without them every value has exactly one place.
// Errors: INVALID_ARGUMENT "<place>: YAML syntax: <what>; <remedy>".
StatusOr<YamlNode> ParseYaml(const std::string& text, const PlaceOfLine& place_of_line);

}  // namespace simurgh
