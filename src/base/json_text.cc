#include "simurgh/base/json_text.h"

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
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

}  // namespace

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
