#pragma once

#include <string>
#include <vector>

namespace simurgh {

// `text` with the first `from`, which must be there, replaced.
std::string Replaced(std::string text, const std::string& from, const std::string& to);

// What is wrong with a document, or "no error". Requires INVALID_ARGUMENT of an error.
std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {});

// One replacement in the sample, and the one line of error it must give: at the line of `at`.
struct ErrorCase {
  std::string from;
  std::string to;
  std::string at;
  std::string error;  // Behind the place.
};

void CheckCases(const std::vector<ErrorCase>& cases);

}  // namespace simurgh
