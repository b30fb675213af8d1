#pragma once

#include <string>
#include <string_view>

// Compiles slowly: only for .cc files that need it.
#include <nlohmann/json.hpp>

#include "base/status.h"

namespace simurgh {

using Json = nlohmann::json;

// Errors: DATA_LOSS for what is no JSON object, and for a key that is there twice.
StatusOr<Json> ParseJsonObject(std::string_view text);

// Bytes that are no UTF-8 become U+FFFD.
std::string JsonText(const Json& value, int indent = -1);

}  // namespace simurgh
