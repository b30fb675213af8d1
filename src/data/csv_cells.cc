#include "data/csv_cells.h"

#include "data/invalid.h"

namespace simurgh {

std::string_view TrimBlanks(std::string_view text, char separator) {
  const auto is_blank = [separator](char c) { return (c == ' ' || c == '\t') && c != separator; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

Status CheckLength(size_t cells, size_t columns) {
  if (cells == columns) return absl::OkStatus();
  return Invalid(
      "%d %s, but the header has %d columns; correct the row, or quote cells that contain "
      "separators",
      cells, cells == 1 ? "cell" : "cells", columns);
}

bool QuoteScan::IsOpen(std::string_view more) {
  for (const char c : more) {
    if (state_ == State::kQuoted) {
      // Of two quotes that are one, the first ends the cell and the second opens it again.
      if (c == '"') state_ = State::kClosed;
    } else if (c == '"' && state_ != State::kText) {
      state_ = State::kQuoted;
    } else if (c == separator_) {
      state_ = State::kCellStart;
    } else if (state_ == State::kClosed || (c != ' ' && c != '\t')) {
      state_ = State::kText;
    }
  }
  return state_ == State::kQuoted;
}

StatusOr<std::string_view> CsvSplitter::TakeQuoted(std::string_view& rest) {
  rest.remove_prefix(1);
  size_t close = rest.find('"');
  if (close != rest.npos && !rest.substr(close + 1).starts_with('"')) {  // The common case.
    const std::string_view cell = rest.substr(0, close);
    rest.remove_prefix(close + 1);
    return cell;
  }
  const size_t first = unescaped_.size();
  for (;;) {
    close = rest.find('"');
    if (close == rest.npos) {
      return Invalid("cell %d: the quote is not closed; close it, or double a quote that is text",
                     cells_.size() + 1);
    }
    unescaped_.append(rest.substr(0, close));
    rest.remove_prefix(close + 1);
    if (!rest.starts_with('"')) return std::string_view(unescaped_).substr(first);
    unescaped_.push_back('"');
    rest.remove_prefix(1);
  }
}

StatusOr<const std::vector<std::string_view>*> CsvSplitter::Split(std::string_view line) {
  cells_.clear();
  unescaped_.clear();
  std::string_view rest = line;
  for (;;) {
    const size_t start = rest.find_first_not_of(" \t");
    if (start != rest.npos && rest[start] == '"' &&
        rest.substr(0, start).find(separator_) == rest.npos) {
      if (unescaped_.capacity() < line.size()) unescaped_.reserve(line.size());
      rest.remove_prefix(start);
      SIMURGH_ASSIGN_OR_RETURN(const std::string_view cell, TakeQuoted(rest));
      cells_.push_back(cell);
      const std::string_view behind = TrimBlanks(rest.substr(0, rest.find(separator_)), separator_);
      if (!behind.empty()) {
        return Invalid("cell %d: text after the closing quote; double a quote that is text",
                       cells_.size());
      }
    } else {
      cells_.push_back(TrimBlanks(rest.substr(0, rest.find(separator_)), separator_));
    }
    const size_t end = rest.find(separator_);
    if (end == rest.npos) return &cells_;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace simurgh
