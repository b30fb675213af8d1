#include "bench/support/flags.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/version.h"

namespace simurgh::bench {
namespace {

std::optional<double> ParseNumber(absl::string_view text, bool is_integer) {
  double unit = 1;
  if (is_integer && absl::ConsumeSuffix(&text, "Ki")) unit = 1 << 10;
  if (is_integer && absl::ConsumeSuffix(&text, "Mi")) unit = 1 << 20;
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || (is_integer && number != std::floor(number))) return {};
  return number * unit;
}

}  // namespace

void Flags::Words(const std::string& name, std::vector<std::string>& values,
                  const std::vector<std::string>& allowed, Default standard,
                  const std::string& help, std::optional<std::string> implicit) {
  const std::string words = absl::StrJoin(allowed, ", ");
  options_.push_back(
      {name, "LIST", absl::StrCat(help, ": ", words), std::move(standard), std::move(implicit),
       [this, name, &values, allowed, words](const auto& list) {
         values = absl::StrSplit(list, ',', absl::SkipEmpty());
         for (const std::string& word : values) {
           if (std::ranges::count(allowed, word) > 0) continue;
           Fail(absl::StrCat("--", name, ": unknown value '", word, "'; use ", words));
         }
       }});
}

void Flags::AddNumbers(Option option, Range range,
                       std::function<bool(const std::vector<double>&)> set) {
  const std::string allowed = absl::StrFormat("%.15g to %.15g", range.least, range.most);
  absl::StrAppend(&option.help, ": ", allowed);
  option.set = [this, name = option.name, range, allowed,
                set = std::move(set)](const std::string& list) {
    std::vector<double> numbers;
    bool fits = true;
    const char* problem = "out of range";
    for (const absl::string_view text : absl::StrSplit(list, ',')) {
      const std::optional<double> number = ParseNumber(text, range.is_integer);
      if (!number) problem = range.is_integer ? "not an integer" : "not a number";
      fits = fits && number && *number >= range.least && *number <= range.most;
      if (fits) numbers.push_back(*number);
    }
    if (fits && set(numbers)) return;
    Fail(absl::StrCat("--", name, ": '", list, "' is ", problem, "; use ", allowed));
  };
  options_.push_back(std::move(option));
}

void Flags::File(const std::string& name, std::string& value, const std::string& help) {
  options_.push_back(
      {name, "FILE", help, {}, {}, [&value](const std::string& text) { value = text; }});
}

void Flags::Switch(const std::string& name, bool& value, const std::string& help) {
  options_.push_back(
      {name, "", help, {}, "yes", [&value](const std::string& text) { value = !text.empty(); }});
}

void Flags::Parse(int argc, const char* const* argv) {
  if (std::ranges::any_of(options_,
                          [](const Option& each) { return each.standard.quick.has_value(); })) {
    Switch("quick", quick_, "measure less, with the quick defaults above");
  }
  Switch("json", json_, "print one JSON object per line instead of a table");
  bool help = false;
  bool version = false;
  Switch("help", help, "print this text");
  Switch("version", version, "print the version");
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = std::min(argument.find('='), argument.size());
    const auto option = std::ranges::find_if(options_, [&](const Option& each) {
      return absl::StrCat("--", each.name) == argument.substr(0, equals);
    });
    if (option == options_.end()) Fail(absl::StrCat("unknown argument '", argument, "'"));
    const bool has_value = equals < argument.size();
    if (has_value && option->value_name.empty()) Fail(absl::StrCat(argument, ": takes no value"));
    std::string value;
    if (has_value) {
      value = argument.substr(equals + 1);
    } else if (option->implicit) {
      value = option->implicit.value_or("");
    } else {
      if (++i == argc) Fail(absl::StrCat(argument, ": lacks its value"));
      value = argv[i];
    }
    option->given = value;
    if (option->value_name.empty()) option->set(value);
  }
  if (help) PrintHelp();
  if (version) std::cout << program_ << " " << Version() << "\n";
  if (help || version) std::exit(0);
  for (const Option& option : options_) {
    const std::string& standard =
        quick_ ? option.standard.quick.value_or(option.standard.normal) : option.standard.normal;
    option.set(option.given.value_or(standard));
  }
}

void Flags::PrintHelp() const {
  std::cout << about_ << "\nOptions:\n";
  for (const Option& option : options_) {
    std::cout << "  --" << option.name << (option.value_name.empty() ? "" : " ")
              << option.value_name << "\n      " << option.help;
    if (!option.standard.normal.empty()) {
      std::cout << " (default: " << option.standard.normal;
      if (option.standard.quick) std::cout << "; quick: " << *option.standard.quick;
      std::cout << ")";
    }
    std::cout << "\n";
  }
}

void Flags::Fail(const std::string& problem) const {
  std::cerr << program_ << ": " << problem << " (--help lists the options)\n";
  std::exit(2);
}

}  // namespace simurgh::bench
