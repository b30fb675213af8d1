#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/text.h"

namespace simurgh {

// Separator of the ids of a list whose format has none. The ids keep their blanks.
inline constexpr char kListSeparator = '\x1f';

// Removes the brackets of a list as Python, NumPy and JSON write it, such as `[34, 'i23']`, which
// has the separator ',' or ' '. Returns false if there are none.
bool TakeBrackets(std::string_view& cell, char separator);

// Removes the first value of a list after TakeBrackets(), and the separator after the value.
// Returns the value without its quotes.
std::string_view TakeBracketed(std::string_view& rest, char separator);

// Gives `take` the values of a list.
template <typename Function>
void ForEachValue(std::string_view cell, char separator, const Function& take) {
  if (TakeBrackets(cell, separator)) {
    while (!cell.empty()) take(TakeBracketed(cell, separator));
    return;
  }
  for (;;) {
    const size_t end = cell.find(separator);
    const std::string_view value = cell.substr(0, end);
    take(separator == kListSeparator ? value : TrimBlanks(value, separator));
    if (end == cell.npos) return;
    cell.remove_prefix(end + 1);
  }
}

// Returns INVALID_ARGUMENT unless a row has as many cells as the header.
Status CheckLength(size_t cells, size_t columns);

// Finds out whether a row ends within a quoted cell, as CsvSplitter reads it. Each byte is seen
// once, so that a row of many lines costs no more than its bytes.
class QuoteScan {
 public:
  explicit QuoteScan(char separator) : separator_(separator) {}

  // Continues with further text of the row. Returns whether a quote is open at its end.
  bool IsOpen(std::string_view more);

 private:
  enum class State { kCellStart, kText, kQuoted, kClosed };
  char separator_;
  State state_ = State::kCellStart;
};

// Splits lines of CSV into cells.
//
// Cells are trimmed of blanks, unless they are kept as they are. In a cell in double quotes,
// separators and blanks are text, and two quotes are one; a cell that has only blanks is empty.
// Threads: one owner. Source: RFC 4180.
class CsvSplitter {
 public:
  explicit CsvSplitter(char separator, bool keeps_blanks = false)
      : separator_(separator), keeps_blanks_(keeps_blanks) {}

  // Returns the cells of `line`, which may have line ends in quotes; an empty line has one empty
  // cell.
  // Lifetime: until the next call, and the line's.
  // Errors: INVALID_ARGUMENT for an unclosed quote, or text after the closing quote.
  StatusOr<const std::vector<std::string_view>*> Split(std::string_view line);

 private:
  // Reads a quoted cell and removes it from `rest`, which starts at its opening quote.
  StatusOr<std::string_view> TakeQuoted(std::string_view& rest);

  char separator_;
  bool keeps_blanks_;
  std::vector<std::string_view> cells_;
  std::string unescaped_;  // Cells with doubled quotes; does not reallocate within a line.
};

}  // namespace simurgh
