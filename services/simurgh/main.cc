#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"

namespace simurgh {
namespace {

struct Command {
  const char* name;
  const char* usage;
  ExitCode (*run)(int argc, const char* const* argv);  // argv[0] is the command.
};

constexpr Command kCommands[] = {
    {"init", kInitUsage, RunInitCommand},
    {"train", kTrainUsage, RunTrainCommand},
    {"status", kStatusUsage, RunStatusCommand},
    {"doctor", kDoctorUsage, RunDoctorCommand},
    {"plan", kPlanUsage, RunPlanCommand},
    {"trace", kTraceUsage, RunTraceCommand},
    {"up", kUpUsage, RunUpCommand},
    {"down", kDownUsage, RunDownCommand},
    {"logs", kLogsUsage, RunLogsCommand},
    {"checkpoint", kCheckpointUsage, RunCheckpointCommand},
    {"predict", kPredictUsage, RunPredictCommand},
    {"serve", kServeUsage, RunServeCommand},
    {"export", kExportUsage, RunExportCommand},
    {"model", kModelUsage, RunModelCommand},
    {"schema", kSchemaUsage, RunSchemaCommand},
    {"completion", kCompletionUsage, RunCompletionCommand},
};

constexpr char kNotes[] = "simurgh COMMAND --help describes a command.\n";

// --help, --version, or the error for a word that is no command.
Status RunWithoutCommand(int argc, const char* const* argv) {
  std::string usage = "simurgh: trains models and works with them\n\nUsage:\n";
  std::string names;
  for (const Command& command : kCommands) {
    absl::StrAppend(&usage, command.usage);
    absl::StrAppend(&names, names.empty() ? "" : ", ", command.name);
  }
  usage += "\n";
  boost::program_options::options_description options("Options");
  options.add_options()("help", "print this help")("version", "print the version");
  std::vector<std::string> words;
  const StatusOr<bool> runs =
      ParseCommandLine(argc, argv, {"simurgh", usage.c_str(), kNotes}, options, std::cout, &words);
  if (!runs.ok()) return runs.status();
  if (!*runs) return absl::OkStatus();
  return OptionProblem(
      absl::StrCat("'", words.empty() ? "" : words[0], "' is not a command; use one of: ", names));
}

int Main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // A write beyond the limit of file sizes returns the error.
  const std::string_view name = argc > 1 ? argv[1] : "";
  const Command* const command = std::find_if(std::begin(kCommands), std::end(kCommands),
                                              [&](const auto& one) { return one.name == name; });
  ExitCode code = ExitCode::kOk;
  if (command != std::end(kCommands)) {
    code = command->run(argc - 1, argv + 1);
  } else if (const Status status = RunWithoutCommand(argc, argv); !status.ok()) {
    return static_cast<int>(Fail(status));
  }
  const Status flushed = FlushOutput();
  return static_cast<int>(flushed.ok() ? code : Fail(flushed));
}

}  // namespace

ExitCode Fail(const Status& status) {
  std::cerr << "simurgh: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? ExitCode::kBadConfiguration : ExitCode::kRuntimeFailure;
}

}  // namespace simurgh

int main(int argc, char** argv) {
  try {
    return simurgh::Main(argc, argv);
  } catch (const std::exception& error) {  // Out of memory.
    std::cerr << "simurgh: " << error.what() << "\n";
    return static_cast<int>(simurgh::ExitCode::kRuntimeFailure);
  }
}
