#pragma once

#include <string>

#include "config/yaml_node.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Sets the value of "section.key=value", which is YAML, in the document. Numbers index lists; the
// index after the last appends, which makes a missing list. Adds missing keys; reading the document
// reports unknown ones. New values have the place "--set section.key=value". Errors:
// INVALID_ARGUMENT for a malformed override, or one that a value in the document contradicts.
Status ApplyOverride(const std::string& override_text, YamlNode* root);

}  // namespace simurgh
