#include "services/runtime/command_line.h"

#include <algorithm>
#include <ostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>

#include "simurgh/base/version.h"

namespace simurgh {

StatusOr<bool> ParseCommandLine(int argc, const char* const* argv, const ProgramTexts& texts,
                                const boost::program_options::options_description& options,
                                std::ostream& out) {
  namespace po = boost::program_options;
  constexpr int kExactNames =
      po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv)
                  .options(options)
                  .positional({})
                  .style(kExactNames)
                  .run(),
              values);
    if (values.count("help") > 0) {
      out << texts.usage << options << "\n" << texts.notes;
      return false;
    }
    if (values.count("version") > 0) {
      out << texts.name << " " << Version() << "\n";
      return false;
    }
    po::notify(values);
  } catch (const po::error& error) {
    return OptionProblem(error.what());
  }
  return true;
}

Status OptionProblem(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " (--help lists the options)"));
}

StatusOr<std::vector<uint32_t>> ParseNumbers(const std::string& option, const std::string& list,
                                             uint32_t most, uint32_t least) {
  std::vector<uint32_t> numbers;
  for (const absl::string_view word : absl::StrSplit(list, ',')) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(word, &number) || number < least || number > most) {
      return OptionProblem(
          absl::StrCat(option, ": '", word, "' is not a number from ", least, " to ", most));
    }
    numbers.push_back(number);
  }
  return numbers;
}

StatusOr<std::vector<std::string>> ParseWords(const std::string& option, const std::string& list,
                                              const std::vector<std::string>& known) {
  std::vector<std::string> words = absl::StrSplit(list, ',');
  for (const std::string& word : words) {
    if (std::ranges::count(known, word) > 0) continue;
    return OptionProblem(
        absl::StrCat(option, ": no '", word, "'; there are ", absl::StrJoin(known, ", ")));
  }
  return words;
}

}  // namespace simurgh
