#include "data/guess/quoted_yaml.h"

#include "absl/strings/str_format.h"

namespace simurgh {

std::string QuotedYaml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (static_cast<unsigned char>(c) < ' ') {
      absl::StrAppendFormat(&quoted, "\\x%02x", c);
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

}  // namespace simurgh
