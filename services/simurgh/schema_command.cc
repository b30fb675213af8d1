#include <iostream>

#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "simurgh/config/config_schema.h"

namespace simurgh {
namespace {

constexpr char kNotes[] =
    "Editors with a YAML language server complete and check keys by the schema, if the first line\n"
    "of the configuration is\n"
    "  # yaml-language-server: $schema=simurgh.schema.json\n"
    "The schema has types, ranges, words, defaults and descriptions of all keys. It has no rules\n"
    "that concern several keys; --check-config of a daemon checks those, too.\n\n"
    "Example:\n"
    "  simurgh schema > simurgh.schema.json\n";

}  // namespace

ExitCode RunSchemaCommand(int argc, const char* const* argv) {
  boost::program_options::options_description options("Options");
  options.add_options()("help", "print this help");
  const StatusOr<bool> runs = ParseCommandLine(
      argc, argv,
      {"simurgh",
       "simurgh schema: prints the JSON Schema of configurations\n\nUsage: simurgh schema\n\n",
       kNotes},
      options, std::cout);
  if (!runs.ok()) return Fail(runs.status());
  if (*runs) std::cout << ConfigSchema();
  return ExitCode::kOk;
}

}  // namespace simurgh
