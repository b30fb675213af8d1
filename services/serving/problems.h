#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "simurgh/base/status.h"
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
  std::string Text() const;

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
std::string Shown(std::string_view value);

}  // namespace simurgh
