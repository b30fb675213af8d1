#pragma once

#include <string>
#include <string_view>

namespace simurgh {

// Compares two texts of lines "key = value", named `a` and `b`. The default of a missing key like
// tables.0.dim is the value of tables.N.dim. Returns "tables.0.dim = 16 (a), 8 (b)" for the first
// five keys that differ, separated by "; ", and the number of others; empty if none differs. The
// result is printable, whatever a peer sent.
std::string SettingsDifference(const std::string& a_text, const std::string& a,
                               const std::string& b_text, const std::string& b);

// A word of a command line, quoted where a POSIX shell would not read it as it is.
std::string ShellWord(const std::string& word);

// Returns whether a text is valid UTF-8. Encoded surrogates count as valid.
bool IsUtf8(std::string_view text);

// A cell for a message: quoted, with escapes for what is not UTF-8 and, if long, cut.
std::string Quoted(std::string_view cell);

// `text` without blanks and tabs at its ends, except `separator`.
std::string_view TrimBlanks(std::string_view text, char separator);

// Replaces bytes that are not printable ASCII by \xNN.
std::string PrintableLine(const std::string& text);

// Appends a text in quotes. Bytes that are not ASCII become \u00XX unless the text is UTF-8.
void AppendJsonText(std::string_view text, std::string& out);

}  // namespace simurgh
