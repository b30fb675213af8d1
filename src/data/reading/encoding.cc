#include "data/reading/encoding.h"

#include "absl/strings/str_cat.h"

#include "base/text.h"

namespace simurgh {
namespace {

// Returns whether all bytes beyond ASCII are characters of two such bytes, as Chinese in GBK is.
// Source: GB 2312-80, whose characters have bytes from 0xA1 to 0xFE.
bool IsChinese(std::string_view text) {
  size_t bytes = 0;  // Length of the current run.
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 && (byte < 0xa1 || byte == 0xff)) return false;
    if (byte < 0x80 && bytes % 2 != 0) return false;
    bytes = byte < 0x80 ? 0 : bytes + 1;
  }
  return bytes % 2 == 0;
}

}  // namespace

std::string EncodingProblem(std::string_view text) {
  if (IsUtf8(text)) return "";
  return absl::StrCat("the text is not UTF-8; convert the file: iconv -f ",
                      IsChinese(text) ? "GBK" : "LATIN1",
                      " -t UTF-8 in.csv > out.csv, or from its other encoding");
}

}  // namespace simurgh
