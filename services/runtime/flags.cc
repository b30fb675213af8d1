#include "services/runtime/flags.h"

#include <limits>
#include <ostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "services/runtime/command_line.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {
namespace {

constexpr char kExitCodes[] =
    "Exit codes:\n"
    "  0    done, or stopped by SIGTERM or SIGINT\n"
    "  2    bad flags or configuration\n"
    "  3    failed while running; the log has the reason\n"
    "  4    lost another process; start this one again, it continues from the last checkpoint\n"
    "  130  a second signal interrupted the shutdown\n";

}  // namespace

StatusOr<std::optional<DaemonFlags>> ParseFlags(const ProgramUsage& usage, int argc,
                                                const char* const* argv, std::ostream& out) {
  namespace po = boost::program_options;
  DaemonFlags flags;
  std::string index;
  bool describes = false;
  po::options_description options("Options");
  options.add_options()("config", po::value(&flags.config_path)->value_name("FILE"),
                        "read this YAML file, the same for all daemons")(
      "index", po::value(&index)->value_name("N")->default_value("0"),
      "run instance N of this daemon's section, from 0")(
      "set", po::value(&flags.overrides)->value_name("KEY=VALUE")->composing(),
      "override a key of the file, as in --set training.staleness=4; may be repeated")(
      "check-config", po::bool_switch(&flags.check_config),
      "check flags and file, print ok or the errors, and exit")(
      "log-level", po::value(&flags.log_level)->value_name("LEVEL")->default_value("info"),
      "log from this level: trace, debug, info, warn, error or off")(
      "log-format", po::value(&flags.log_format)->value_name("FORMAT")->default_value("text"),
      "log lines of text, or of json")("help", "print this help and exit")(
      "describe-config", po::bool_switch(&describes),
      "print the reference of all configuration keys as Markdown and exit")(
      "version", "print the version and exit");
  if (!usage.own_options.options().empty()) options.add(usage.own_options);
  const std::string text =
      absl::StrCat(usage.program, ": ", usage.summary, "\n\nUsage: ", usage.program, " ",
                   usage.arguments, " [options]\n\n");
  SIMURGH_ASSIGN_OR_RETURN(
      const bool runs,
      ParseCommandLine(argc, argv, {usage.program.c_str(), text.c_str(), kExitCodes}, options,
                       out));
  if (!runs) return std::nullopt;
  if (describes) {
    out << DescribeConfig();
    return std::nullopt;
  }
  if (flags.config_path.empty() && usage.arguments.starts_with("--config")) {
    return OptionProblem("--config FILE is missing");
  }
  if (!absl::SimpleAtoi(index, &flags.index)) {
    return OptionProblem(absl::StrCat("--index: '", index, "' is not an integer from 0 to ",
                                      std::numeric_limits<uint32_t>::max()));
  }
  return flags;
}

}  // namespace simurgh
