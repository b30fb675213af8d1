#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace simurgh {

// Returns a text for HTML and SVG, also in attributes with quotes. Bytes that are not UTF-8 become
// U+FFFD, control characters become blanks.
std::string Escaped(std::string_view text);

// Returns a number with four decimals or significant digits, or a dash for one that is not known.
std::string NumberText(double value);
// Returns a share as a percentage, such as "12.5 %".
std::string PercentText(double share);
// Returns an integer with commas between groups of three digits.
std::string CountText(uint64_t count);

// Return an element <data> that shows a text, and whose attribute has all digits of the number.
std::string NumberHtml(double value);
std::string PercentHtml(double share);
std::string CountHtml(uint64_t count);

// A table of HTML.
class HtmlTable {
 public:
  // heads: texts. The first column is left-aligned, the others are right-aligned.
  explicit HtmlTable(const std::vector<std::string>& heads);

  // cells: HTML, one per head.
  void AddRow(const std::vector<std::string>& cells);
  std::string Finish() const { return html_ + "</tbody></table></div>\n"; }

 private:
  std::string html_;
};

}  // namespace simurgh
