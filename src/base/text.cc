#include "simurgh/base/text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
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

std::string Printable(const std::string& text) {
  constexpr size_t kMaxBytes = 160;
  return PrintableLine(text.substr(0, kMaxBytes));
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
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80   ? 1
                          : byte < 0xc2 ? 0
                          : byte < 0xe0 ? 2
                          : byte < 0xf0 ? 3
                          : byte < 0xf5 ? 4
                                        : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
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

std::string PrintableLine(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (absl::ascii_isprint(static_cast<unsigned char>(c))) {
      line += c;
    } else {
      absl::StrAppend(&line, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
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
