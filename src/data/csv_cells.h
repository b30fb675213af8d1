#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh {

// `text` without blanks and tabs at its ends, `separator` not being one of them.
std::string_view TrimBlanks(std::string_view text, char separator);

// Splits lines of CSV into cells.
//
// Cells are trimmed of blanks. A cell that starts with a double quote ends at the next single one;
// in between, separators and blanks are text and two quotes are one. Threads: one owner. Source:
// RFC 4180, without line ends inside quotes.
class CsvSplitter {
 public:
  explicit CsvSplitter(char separator) : separator_(separator) {}

  // The cells of `line`; an empty line has one empty cell.
  // Lifetime: until the next call, and the line's.
  // Errors: INVALID_ARGUMENT for a quote that is not closed, or that is not the cell's last
  // character.
  StatusOr<const std::vector<std::string_view>*> Split(std::string_view line);

 private:
  // Reads a quoted cell; `rest` starts at its opening quote and is moved behind its closing one.
  StatusOr<std::string_view> TakeQuoted(std::string_view& rest);

  char separator_;
  std::vector<std::string_view> cells_;
  std::string
      unescaped_;  // Cells with doubled quotes, one after another; never grows within a line.
};

}  // namespace simurgh
