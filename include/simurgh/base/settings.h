#pragma once

#include <string>

namespace simurgh {

// Compares two texts of lines "key = value". A key like tables.0.dim that a text lacks has the
// value of tables.N.dim there, its default. Returns "tables.0.dim = 16 (a), 8 (b)" for the first
// five keys that differ, by "; ", and the number of others; empty if none differs. `a` and `b` name
// the texts. The result is printable, whatever a peer sent.
std::string SettingsDifference(const std::string& a_text, const std::string& a,
                               const std::string& b_text, const std::string& b);

// The text with bytes beyond printable ASCII as \xNN.
std::string PrintableLine(const std::string& text);

}  // namespace simurgh
