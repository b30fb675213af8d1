#include "services/simurgh/model_command.h"

#include <chrono>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "services/runtime/command_line.h"
#include "simurgh/model/model_directory.h"
#include "simurgh/model/model_report.h"

namespace simurgh {
namespace {

constexpr char kNotes[] =
    "MODEL is a model's folder. Without STEP, info and verify use the newest checkpoint.\n\n"
    "Exit codes: 0 done, 2 bad arguments, 3 damaged or unreadable, or failed otherwise.\n";

ExitCode Fail(const Status& status) {
  std::cerr << "simurgh: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? ExitCode::kBadConfiguration : ExitCode::kRuntimeFailure;
}

ExitCode Verify(ModelDirectory& model, const Checkpoint& checkpoint) {
  auto shown = std::chrono::steady_clock::now();
  const auto show = [&](const std::string& file, uint64_t bytes, uint64_t of) {
    const auto now = std::chrono::steady_clock::now();
    if (bytes > 0 && now - shown < std::chrono::seconds(1)) return;
    shown = now;
    std::cerr << "simurgh: " << file << ": " << bytes << " of " << of << " bytes\n";
  };
  const auto damage = model.Verify(checkpoint.manifest.step, show);
  if (!damage.ok()) return Fail(damage.status());
  for (const std::string& one : *damage) std::cerr << "simurgh: " << one << "\n";
  if (!damage->empty()) return ExitCode::kRuntimeFailure;
  std::cout << checkpoint.folder << ": all " << checkpoint.manifest.files.size()
            << " files are sound\n";
  return ExitCode::kOk;
}

StatusOr<ModelDirectory::Newest> Find(ModelDirectory& model, const std::string* step) {
  if (step == nullptr) return model.Latest();
  uint64_t number = 0;
  if (!absl::SimpleAtoi(*step, &number)) {
    return OptionProblem(absl::StrCat("STEP: '", *step, "' is not a number from 0 on"));
  }
  SIMURGH_ASSIGN_OR_RETURN(Checkpoint checkpoint, model.Open(number));
  return ModelDirectory::Newest{std::move(checkpoint), {}};
}

}  // namespace

ExitCode RunModelCommand(int argc, const char* const* argv) {
  const std::string usage =
      absl::StrCat("simurgh model: shows and checks trained models\n\nUsage:\n", kModelUsage, "\n");
  boost::program_options::options_description options("Options");
  options.add_options()("help", "print this help and exit");
  std::vector<std::string> words;
  const StatusOr<bool> runs =
      ParseCommandLine(argc, argv, {"simurgh", usage.c_str(), kNotes}, options, std::cout, &words);
  if (!runs.ok()) return Fail(runs.status());
  if (!*runs) return ExitCode::kOk;
  const std::string action = words.empty() ? "" : words[0];
  const size_t most = action == "list" ? 2 : 3;
  if (action != "list" && action != "info" && action != "verify") {
    return Fail(OptionProblem(
        absl::StrCat("model: '", action, "' is not an action; use list, info or verify")));
  }
  if (words.size() < 2)
    return Fail(OptionProblem(absl::StrCat("model ", action, ": MODEL is missing")));
  if (words.size() > most) {
    return Fail(OptionProblem(absl::StrCat("unexpected argument '", words[most], "'")));
  }
  ModelDirectory model(words[1]);
  if (action == "list") {
    const StatusOr<std::string> text = ListCheckpoints(model);
    if (!text.ok()) return Fail(text.status());
    std::cout << *text;
    return ExitCode::kOk;
  }
  const auto found = Find(model, words.size() == 3 ? &words[2] : nullptr);
  if (!found.ok()) return Fail(found.status());
  for (const std::string& warning : found->warnings) {
    std::cerr << "simurgh: warning: " << warning << "\n";
  }
  if (action == "verify") {
    const ExitCode code = Verify(model, found->checkpoint);
    return found->warnings.empty() ? code : ExitCode::kRuntimeFailure;
  }
  const StatusOr<std::string> text = DescribeCheckpoint(found->checkpoint);
  if (!text.ok()) return Fail(text.status());
  std::cout << *text;
  return ExitCode::kOk;
}

}  // namespace simurgh
