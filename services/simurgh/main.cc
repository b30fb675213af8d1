#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

#include "services/runtime/command_line.h"
#include "services/runtime/exit_code.h"
#include "services/simurgh/model_command.h"
#include "services/simurgh/predict_command.h"

namespace simurgh {
namespace {

// A command with options of its own. `model` has none.
struct Command {
  const char* name;
  const char* usage;
  ExitCode (*run)(int argc, const char* const* argv);  // argv[0]: the name.
};

constexpr Command kCommands[] = {{"predict", kPredictUsage, RunPredictCommand}};

constexpr char kNotes[] =
    "MODEL is a model's folder. Without STEP, info and verify use the newest checkpoint.\n\n"
    "Exit codes: 0 done, 2 bad arguments, 3 damaged or unreadable, or failed otherwise.\n";

int Fail(const Status& status, ExitCode code) {
  std::cerr << "simurgh: " << status.message() << "\n";
  return static_cast<int>(code);
}

// Returns the code of the command, or another one if stdout is incomplete.
int End(ExitCode code) {
  const Status flushed = FlushOutput();
  return flushed.ok() ? static_cast<int>(code) : Fail(flushed, ExitCode::kRuntimeFailure);
}

int Main(int argc, char** argv) {
  for (const Command& command : kCommands) {
    if (argc > 1 && std::string_view(argv[1]) == command.name) {
      return End(command.run(argc - 1, argv + 1));
    }
  }
  // Options are --help and --version only. The other words are the command.
  std::vector<const char*> flags(argv, argv + 1);
  std::vector<std::string> words;
  for (const char* word : std::vector<const char*>(argv + 1, argv + argc)) {
    if (*word == '-') {
      flags.push_back(word);
    } else {
      words.emplace_back(word);
    }
  }
  std::string usage = absl::StrCat("simurgh: works with trained models\n\nUsage:\n", kModelUsage);
  for (const Command& command : kCommands) absl::StrAppend(&usage, command.usage);
  usage.push_back('\n');
  boost::program_options::options_description options("Options");
  options.add_options()("help", "print this help")("version", "print the version");
  const StatusOr<bool> runs =
      ParseCommandLine(static_cast<int>(flags.size()), flags.data(),
                       {"simurgh", usage.c_str(), kNotes}, options, std::cout);
  if (!runs.ok()) return Fail(runs.status(), ExitCode::kBadConfiguration);
  ExitCode code = ExitCode::kOk;
  if (*runs) {
    const std::string command = words.empty() ? "" : words[0];
    if (command != "model") {
      return Fail(
          OptionProblem(absl::StrCat("'", command, "' is not a command; use model or predict")),
          ExitCode::kBadConfiguration);
    }
    code = RunModelCommand({words.begin() + 1, words.end()});
  }
  return End(code);
}

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  try {
    return simurgh::Main(argc, argv);
  } catch (const std::exception& error) {  // Out of memory.
    std::cerr << "simurgh: " << error.what() << "\n";
    return static_cast<int>(simurgh::ExitCode::kRuntimeFailure);
  }
}
