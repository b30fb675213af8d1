// What shells and editors complete and check with.

#include <iostream>
#include <string>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {
namespace {

// Options of a command are those that its --help lists, so that the script never lacks one.
constexpr char kScript[] = R"(# source <(simurgh completion bash)
_simurgh() {
  local word=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} command=${COMP_WORDS[1]-}
  if ((COMP_CWORD == 1)); then
    local commands
    commands=$("$program" --help 2>/dev/null | sed -n 's/^  simurgh \([a-z]*\) .*/\1/p' | sort -u)
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
  elif [[ $word == -* ]]; then
    local options
    options=$("$program" "$command" --help 2>/dev/null | sed -n 's/^ *\(--[a-z-]*\).*/\1/p')
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  fi
}
complete -o default -F _simurgh simurgh
)";

constexpr char kSchemaNotes[] =
    "Editors with a YAML language server complete and check keys by the schema, if the first line\n"
    "of the configuration is\n"
    "  # yaml-language-server: $schema=simurgh.schema.json\n"
    "The schema has types, ranges, words, defaults and descriptions of all keys. It has no rules\n"
    "that concern several keys; --check-config of a daemon checks those, too.\n\n"
    "Example:\n"
    "  simurgh schema > simurgh.schema.json\n";

}  // namespace

ExitCode RunCompletionCommand(int argc, const char* const* argv) {
  boost::program_options::options_description options("Options");
  const CommandHelp help{"completion: prints a script for a shell", kCompletionUsage,
                         "Add to ~/.bashrc: source <(simurgh completion bash)\n"};
  return RunCommand(argc, argv, help, options, SIZE_MAX,
                    [](const std::vector<std::string>& words) -> StatusOr<ExitCode> {
                      if (words != std::vector<std::string>{"bash"}) {
                        return OptionProblem("completion: name a shell; use bash");
                      }
                      std::cout << kScript;
                      return ExitCode::kOk;
                    });
}

ExitCode RunSchemaCommand(int argc, const char* const* argv) {
  boost::program_options::options_description options("Options");
  const CommandHelp help{"schema: prints the JSON Schema of configurations", kSchemaUsage,
                         kSchemaNotes};
  return RunCommand(argc, argv, help, options, 0, [](const auto& /*words*/) {
    std::cout << ConfigSchema();
    return ExitCode::kOk;
  });
}

}  // namespace simurgh
