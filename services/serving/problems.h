#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "simurgh/base/settings.h"
#include "simurgh/serve/score_request.h"

namespace simurgh {

// What is wrong with a request: the first ten problems, and how many more there are.
class Problems {
 public:
  static constexpr size_t kShown = ScoredRows::kMaxProblems;

  void Add(std::string problem) {
    if (shown_.size() < kShown) shown_.push_back(std::move(problem));
    ++count_;
  }
  // Further `count` problems, without a text.
  void AddMore(size_t count) { count_ += count; }

  bool empty() const { return count_ == 0; }
  // Whether to look for no more.
  bool full() const { return count_ > kShown; }
  // One line each.
  std::string Text() const {
    std::string text = absl::StrJoin(shown_, "\n");
    if (count_ > shown_.size()) absl::StrAppend(&text, "\nand ", count_ - shown_.size(), " more");
    return text;
  }

 private:
  std::vector<std::string> shown_;
  size_t count_ = 0;
};

// Rows with a cell that is not a value of its column.
struct BadRows {
  std::set<size_t> rows;  // From 0.
  Problems problems;

  void Add(size_t row, std::string problem) {
    rows.insert(row);
    problems.Add(std::move(problem));
  }
};

// A value for a message: in quotes, printable and not too long.
inline std::string Shown(std::string_view value) {
  constexpr size_t kMaxBytes = 64;
  const bool is_cut = value.size() > kMaxBytes;
  return absl::StrCat("'", PrintableLine(std::string(value.substr(0, kMaxBytes))),
                      is_cut ? "..." : "", "'");
}

}  // namespace simurgh
