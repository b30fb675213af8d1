#include "report/html.h"

#include <array>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/text.h"

namespace simurgh {
namespace {

constexpr char kUnknown[] = "–";

// Returns the number of bytes of the UTF-8 character at the begin of a text; 0: there is none.
size_t CharacterBytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const size_t bytes = first < 0x80   ? 1
                       : first < 0xc2 ? 0
                       : first < 0xe0 ? 2
                       : first < 0xf0 ? 3
                                      : 4;
  if (first > 0xf4 || bytes == 0 || bytes > text.size()) return 0;
  return IsUtf8(text.substr(0, bytes)) ? bytes : 0;
}

std::string DataHtml(const std::string& digits, const std::string& text) {
  return absl::StrCat("<data value=\"", digits, "\">", text, "</data>");
}

std::string DigitsOf(double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const char first = text.front();
    if (bytes == 0) {
      html += "\xEF\xBF\xBD";
    } else if (first == '&') {
      html += "&amp;";
    } else if (first == '<') {
      html += "&lt;";
    } else if (first == '>') {
      html += "&gt;";
    } else if (first == '"') {
      html += "&quot;";
    } else if (first == '\'') {
      html += "&#39;";
    } else if (static_cast<unsigned char>(first) < 0x20 || first == 0x7f) {
      html.push_back(' ');
    } else {
      html.append(text.substr(0, bytes));
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return html;
}

std::string NumberText(double value) {
  if (!std::isfinite(value)) return kUnknown;
  const double size = std::abs(value);
  if (size >= 10'000 && size < 1e15) {
    return absl::StrCat(value < 0 ? "-" : "", CountText(static_cast<uint64_t>(std::llround(size))));
  }
  // Numbers of a column then have their points below each other.
  constexpr double kSmall = 0.001;
  if (size >= kSmall && size < 10 && size != std::round(size)) {
    return absl::StrFormat("%.4f", value);
  }
  return absl::StrFormat("%.4g", value);
}

std::string PercentText(double share) {
  if (!std::isfinite(share)) return kUnknown;
  const double percent = 100 * share;
  if (percent != 0 && std::abs(percent) < 0.1) return absl::StrFormat("%.2g %%", percent);
  return absl::StrFormat("%.1f %%", percent);
}

std::string CountText(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string NumberHtml(double value) {
  return std::isfinite(value) ? DataHtml(DigitsOf(value), NumberText(value)) : kUnknown;
}

std::string PercentHtml(double share) {
  return std::isfinite(share) ? DataHtml(DigitsOf(share), PercentText(share)) : kUnknown;
}

std::string CountHtml(uint64_t count) { return DataHtml(std::to_string(count), CountText(count)); }

HtmlTable::HtmlTable(const std::vector<std::string>& heads) {
  html_ = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& head : heads) {
    absl::StrAppend(&html_, "<th scope=\"col\">", Escaped(head), "</th>");
  }
  html_ += "</tr></thead><tbody>";
}

void HtmlTable::AddRow(const std::vector<std::string>& cells) {
  html_ += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    absl::StrAppend(&html_, i == 0 ? "<th scope=\"row\">" : "<td>", cells[i],
                    i == 0 ? "</th>" : "</td>");
  }
  html_ += "</tr>\n";
}

}  // namespace simurgh
