#include "config/error_line.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

std::string Legible(std::string text) {
  constexpr size_t kMaxLength = 300;
  if (text.size() > kMaxLength) text = text.substr(0, kMaxLength) + "...";
  std::replace_if(text.begin(), text.end(), absl::ascii_iscntrl, '?');
  return text;
}

}  // namespace

std::string ErrorLine(const std::string& place, const std::string& key, const std::string& what,
                      const std::string& remedy) {
  return absl::StrCat(Legible(place), ": ", key.empty() ? "" : absl::StrCat(Legible(key), ": "),
                      Legible(what), "; ", Legible(remedy));
}

}  // namespace simurgh
