#pragma once

#include <string>
#include <string_view>

namespace simurgh {

// Appends a text in quotes. Bytes that are not ASCII become \u00XX unless the text is UTF-8.
void AppendJsonText(std::string_view text, std::string& out);

}  // namespace simurgh
