#pragma once

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <nlohmann/json.hpp>

// The option --json of commands that print data.

namespace simurgh {

inline void AddJsonOption(boost::program_options::options_description& options, bool* json) {
  options.add_options()("json", boost::program_options::bool_switch(json),
                        "print the result as one JSON object on a line");
}

// Bytes that are no UTF-8 become U+FFFD.
inline void PrintJson(const nlohmann::ordered_json& value, std::ostream& out = std::cout) {
  out << value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

// text: "KEY=VALUE ..." of a training or a test, after lines "label=NAME KEY=VALUE ..." and
// "warning: ...". Numbers become numbers, and `undefined` null.
inline nlohmann::ordered_json ResultJson(const std::string& text) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  const auto add = [](const std::string& words, nlohmann::ordered_json& to) {
    for (const absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> pair =
          absl::StrSplit(word, absl::MaxSplits('=', 1));
      const auto& [key, value] = pair;
      double number = 0;
      if (value == "undefined") {
        to[key] = nullptr;
      } else if (absl::SimpleAtod(value, &number)) {
        to[key] = number;
      } else {
        to[key] = value;
      }
    }
  };
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    constexpr std::string_view kLabel = "label=";
    constexpr std::string_view kWarning = "warning: ";
    if (line.starts_with(kWarning)) {
      all["warnings"].push_back(line.substr(kWarning.size()));
    } else if (line.starts_with(kLabel)) {
      // A name may have blanks.
      const size_t end = std::min(line.rfind(" loss="), line.rfind(" test_auc="));
      nlohmann::ordered_json& one = all["labels"].emplace_back();
      one["label"] = line.substr(kLabel.size(), end - kLabel.size());
      add(line.substr(end), one);
    } else {
      add(line, all);
    }
  }
  return all;
}

}  // namespace simurgh
