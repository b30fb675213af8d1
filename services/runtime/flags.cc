#include "services/runtime/flags.h"

#include <limits>
#include <ostream>

#include "absl/strings/str_cat.h"
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>

#include "simurgh/base/version.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {
namespace {

namespace po = boost::program_options;

constexpr char kExitCodes[] =
    "Exit codes:\n"
    "  0    done, or stopped by SIGTERM or SIGINT\n"
    "  2    bad flags or configuration\n"
    "  3    failed while running; the log has the reason\n"
    "  130  a second signal interrupted the shutdown\n";

struct CommonValues {
  DaemonFlags flags;
  int64_t index = 0;  // Signed, since "-1" would otherwise be read as a large number.
};

po::options_description CommonOptions(CommonValues& values) {
  po::options_description options("Options");
  DaemonFlags& flags = values.flags;
  options.add_options()("config", po::value(&flags.config_path)->value_name("FILE"),
                        "read this YAML file, the same for all daemons")(
      "index", po::value(&values.index)->value_name("N")->default_value(0),
      "run instance N of this daemon's section, from 0")(
      "set", po::value(&flags.overrides)->value_name("KEY=VALUE")->composing(),
      "override a key of the file, as in --set training.staleness=4; may be repeated")(
      "check-config", po::bool_switch(&flags.check_config),
      "check flags and file, print ok or the errors, and exit")(
      "log-level", po::value(&flags.log_level)->value_name("LEVEL")->default_value("info"),
      "log from this level: trace, debug, info, warn, error or off")("help",
                                                                     "print this help and exit")(
      "describe-config", "print the reference of all configuration keys as Markdown and exit")(
      "version", "print the version and exit");
  return options;
}

Status Problem(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " (--help lists the flags)"));
}

}  // namespace

StatusOr<std::optional<DaemonFlags>> ParseFlags(const ProgramUsage& usage, int argc,
                                                const char* const* argv, std::ostream& out) {
  CommonValues values;
  po::options_description visible = CommonOptions(values);
  if (!usage.own_options.options().empty()) visible.add(usage.own_options);

  po::options_description accepted;
  accepted.add(visible);
  std::vector<std::string> stray;
  accepted.add_options()("stray", po::value(&stray));
  po::positional_options_description positions;
  positions.add("stray", -1);

  po::variables_map given;
  try {
    constexpr int kExactNames =
        po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(argc, argv)
                  .options(accepted)
                  .positional(positions)
                  .style(kExactNames)
                  .run(),
              given);
    if (given.count("help") > 0) {
      out << usage.program << ": " << usage.summary << "\n\nUsage: " << usage.program
          << " --config FILE [options]\n\n"
          << visible << "\n"
          << kExitCodes;
      return std::nullopt;
    }
    if (given.count("describe-config") > 0) {
      out << DescribeConfig();
      return std::nullopt;
    }
    if (given.count("version") > 0) {
      out << usage.program << " " << Version() << "\n";
      return std::nullopt;
    }
    po::notify(given);
  } catch (const po::error& error) {
    return Problem(error.what());
  }
  if (!stray.empty()) return Problem(absl::StrCat("unexpected argument '", stray.front(), "'"));
  if (values.flags.config_path.empty()) return Problem("--config FILE is missing");
  if (values.index < 0 || values.index > std::numeric_limits<uint32_t>::max()) {
    return Problem(absl::StrCat("--index ", values.index, " is out of range; it counts from 0"));
  }
  values.flags.index = static_cast<uint32_t>(values.index);
  return values.flags;
}

}  // namespace simurgh
