#pragma once

#include <string>

#include "config/yaml_node.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Puts the value of "section.key=value" into the document; the value is read as YAML. Number
// components index lists; the index after the last appends. Missing keys on the way are made:
// whether they are known is found out when the document is read. What it makes has the place "--set
// section.key=value". Errors: INVALID_ARGUMENT for an override that is malformed or leads through a
// value that has no such part.
Status ApplyOverride(const std::string& override_text, YamlNode* root);

}  // namespace simurgh
