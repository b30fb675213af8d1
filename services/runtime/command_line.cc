#include "services/runtime/command_line.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>

#include "base/version.h"

namespace simurgh {

StatusOr<bool> ParseCommandLine(int argc, const char* const* argv, const ProgramTexts& texts,
                                const boost::program_options::options_description& options,
                                std::ostream& out, std::vector<std::string>* words) {
  namespace po = boost::program_options;
  constexpr int kExactNames =
      po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  std::vector<std::string> stray;
  po::options_description accepted;
  accepted.add(options).add_options()("stray", po::value(&stray));
  po::positional_options_description positions;
  positions.add("stray", -1);
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv)
                  .options(accepted)
                  .positional(positions)
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
  if (words != nullptr) {
    *words = std::move(stray);
    return true;
  }
  if (stray.empty()) return true;
  return OptionProblem(absl::StrCat("unexpected argument '", stray.front(), "'"));
}

Status FlushOutput() {
  errno = 0;
  std::cout.flush();
  std::fflush(stdout);
  if (std::cout.good() && std::ferror(stdout) == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("cannot write to stdout, its output is incomplete",
                   errno == 0 ? "" : absl::StrCat(": ", std::strerror(errno))));
}

void RefuseEmptyHost(const std::string& host) {
  if (!host.empty()) return;
  throw boost::program_options::error("--host: the name is empty; use a host of CONFIG");
}

Status OptionProblem(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " (--help lists the options)"));
}

}  // namespace simurgh
