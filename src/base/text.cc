#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace simurgh {
namespace {

using Settings = std::map<std::string, std::string>;

Settings Parse(const std::string& text) {
  Settings settings;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> setting =
        absl::StrSplit(line, absl::MaxSplits(" = ", 1));
    settings.insert(setting);
  }
  return settings;
}

std::string ValueOf(const Settings& settings, const std::string& key) {
  auto found = settings.find(key);
  if (found == settings.end()) {
    std::vector<std::string> parts = absl::StrSplit(key, '.');
    for (std::string& part : parts) {
      if (std::ranges::all_of(part, absl::ascii_isdigit)) part = "N";
    }
    found = settings.find(absl::StrJoin(parts, "."));
  }
  return found == settings.end() ? "none" : found->second;
}

// A recorded setting, in which RecordedText() has replaced all bytes but ASCII.
std::string Printable(const std::string& recorded) {
  constexpr size_t kMaxBytes = 160;
  std::string text;
  for (size_t i = 0; i < recorded.size(); ++i) {
    const std::string digits =
        recorded.substr(i).starts_with("\\x") ? recorded.substr(i + 2, 2) : "";
    uint32_t byte = 0;
    if (digits.size() == 2 && absl::SimpleHexAtoi(digits, &byte) && byte >= 0x80) {
      text += static_cast<char>(byte);
      i += 3;
    } else {
      text += recorded[i];
    }
  }
  return PrintableLine(text.substr(0, kMaxBytes));
}

// The bytes of the first character; 0: they are not UTF-8.
size_t FirstLength(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  const size_t length = byte < 0x80   ? 1
                        : byte < 0xc2 ? 0
                        : byte < 0xe0 ? 2
                        : byte < 0xf0 ? 3
                        : byte < 0xf5 ? 4
                                      : 0;
  if (length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((static_cast<unsigned char>(text[k]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

// Returns whether a terminal shows the character. It does not show control characters, U+0080 to
// U+009F, and characters that change the direction of text: U+200E, U+200F, U+2028 to U+202E and
// U+2066 to U+2069.
bool IsShown(std::string_view character) {
  if (character.size() == 1) return absl::ascii_isprint(static_cast<unsigned char>(character[0]));
  if (character.size() == 2) return character[0] != '\xc2' || character[1] >= '\xa0';
  const std::string_view start = character.substr(0, 2);
  const char last = character.back();
  if (start == "\xe2\x80")
    return last < '\x8e' || (last > '\x8f' && last < '\xa8') || last > '\xae';
  return start != "\xe2\x81" || last < '\xa6' || last > '\xa9';
}

void AppendByte(char byte, std::string& line) {
  absl::StrAppend(&line, "\\x", absl::Hex(static_cast<unsigned char>(byte), absl::kZeroPad2));
}

}  // namespace

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    uint64_t eight = 0;
    if (text.size() - i >= sizeof(eight)) {
      std::memcpy(&eight, text.data() + i, sizeof(eight));
      if ((eight & 0x8080808080808080) == 0) {
        i += sizeof(eight);
        continue;
      }
    }
    const size_t length = FirstLength(text.substr(i));
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string ShellWord(const std::string& word) {
  constexpr std::string_view kPlain = "_./=:@%+,-";
  const auto is_plain = [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kPlain.find(c) != kPlain.npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

std::string Quoted(std::string_view cell) {
  constexpr size_t kShownBytes = 64;
  const auto is_inside = [&](size_t byte) {  // A character of UTF-8.
    return byte < cell.size() && (static_cast<unsigned char>(cell[byte]) & 0xc0) == 0x80;
  };
  size_t end = kShownBytes;
  while (end > 0 && is_inside(end)) --end;
  const std::string_view shown = cell.substr(0, end);
  const absl::string_view text(shown.data(), shown.size());
  return absl::StrCat("'", IsUtf8(shown) ? absl::Utf8SafeCHexEscape(text) : absl::CHexEscape(text),
                      shown.size() < cell.size() ? "..." : "", "'");
}

std::string_view TrimBlanks(std::string_view text, char separator) {
  const auto is_blank = [separator](char c) { return (c == ' ' || c == '\t') && c != separator; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string PrintableLine(const std::string& whole) {
  std::string_view text = whole;
  std::string line;
  while (!text.empty()) {
    const size_t length = FirstLength(text);
    if (length > 0 && IsShown(text.substr(0, length))) {
      line += text.substr(0, length);
      text.remove_prefix(length);
    } else {
      AppendByte(text[0], line);
      text.remove_prefix(1);
    }
  }
  return line;
}

std::string SettingsDifference(const std::string& a_text, const std::string& a,
                               const std::string& b_text, const std::string& b) {
  constexpr size_t kShown = 5;
  if (a_text == b_text) return "";
  const Settings a_settings = Parse(a_text);
  const Settings b_settings = Parse(b_text);
  std::set<std::string> keys;
  for (const Settings* settings : {&a_settings, &b_settings}) {
    for (const auto& [key, value] : *settings) keys.insert(key);
  }
  std::vector<std::string> shown;
  size_t more = 0;
  for (const std::string& key : keys) {
    const std::string a_value = ValueOf(a_settings, key);
    const std::string b_value = ValueOf(b_settings, key);
    if (a_value == b_value) continue;
    if (shown.size() == kShown) {
      ++more;
      continue;
    }
    shown.push_back(absl::StrCat(Printable(key), " = ", Printable(a_value), " (", a, "), ",
                                 Printable(b_value), " (", b, ")"));
  }
  if (more > 0) shown.push_back(absl::StrCat("and ", more, " more"));
  return absl::StrJoin(shown, "; ");
}

void AppendJsonText(std::string_view text, std::string& out) {
  const bool is_utf8 = IsUtf8(text);
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_utf8)) {
      absl::StrAppend(&out, "\\u00", absl::Hex(byte, absl::kZeroPad2));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

}  // namespace simurgh
