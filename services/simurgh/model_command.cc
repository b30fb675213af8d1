#include <chrono>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "simurgh/model/model_directory.h"
#include "simurgh/model/model_report.h"

namespace simurgh {
namespace {

constexpr char kNotes[] =
    "MODEL is a model's folder. Without STEP, the newest checkpoint is used. diff and merge\n"
    "also take a checkpoint's folder, MODEL/step-N. merge writes a checkpoint, with those that it\n"
    "continues, as a full one into the new model OUT.\n\n"
    "Exit codes: 0 done, 2 bad arguments, 3 damaged or unreadable, or failed otherwise.\n";

ExitCode Verify(ModelDirectory& model, const Checkpoint& checkpoint, bool json) {
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
  if (json) {
    PrintJson({{"folder", checkpoint.folder},
               {"files", checkpoint.manifest.files.size()},
               {"damage", *damage}});
    return damage->empty() ? ExitCode::kOk : ExitCode::kRuntimeFailure;
  }
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

void PrintWarnings(const ModelDirectory::Newest& found) {
  for (const std::string& warning : found.warnings) {
    std::cerr << "simurgh: warning: " << warning << "\n";
  }
}

// path: as ModelDirectory::Find.
StatusOr<Checkpoint> FindByPath(const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(ModelDirectory::Newest found, ModelDirectory::Find(path));
  PrintWarnings(found);
  return std::move(found.checkpoint);
}

ExitCode Diff(const std::string& model, const std::string& other, bool json) {
  const auto a = FindByPath(model);
  if (!a.ok()) return Fail(a.status());
  const auto b = FindByPath(other);
  if (!b.ok()) return Fail(b.status());
  const StatusOr<std::string> text = DescribeDifferences(*a, *b);
  if (!text.ok()) return Fail(text.status());
  if (json) {
    const std::vector<std::string> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
    PrintJson({{"differences", lines}});
  } else {
    std::cout << *text;
  }
  return ExitCode::kOk;
}

ExitCode Merge(const std::string& model, const std::string& to, bool json) {
  const auto checkpoint = FindByPath(model);
  if (!checkpoint.ok()) return Fail(checkpoint.status());
  const StatusOr<Checkpoint> merged = MergeCheckpoint(*checkpoint, to);
  if (!merged.ok()) return Fail(merged.status());
  if (json) {
    PrintJson({{"folder", merged->folder}});
  } else {
    std::cout << merged->folder << "\n";
  }
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunModelCommand(int argc, const char* const* argv) {
  const std::string usage =
      absl::StrCat("simurgh model: shows and checks trained models\n\nUsage:\n", kModelUsage, "\n");
  boost::program_options::options_description options("Options");
  options.add_options()("help", "print this help and exit");
  bool json = false;
  AddJsonOption(options, &json);
  std::vector<std::string> words;
  const StatusOr<bool> runs =
      ParseCommandLine(argc, argv, {"simurgh", usage.c_str(), kNotes}, options, std::cout, &words);
  if (!runs.ok()) return Fail(runs.status());
  if (!*runs) return ExitCode::kOk;
  const std::string action = words.empty() ? "" : words[0];
  const std::map<std::string, size_t> most_words = {
      {"list", 2}, {"info", 3}, {"verify", 3}, {"diff", 3}, {"merge", 3}};
  const auto known = most_words.find(action);
  if (known == most_words.end()) {
    return Fail(OptionProblem(absl::StrCat(
        "model: '", action, "' is not an action; use list, info, verify, diff or merge")));
  }
  const size_t most = known->second;
  if (words.size() < 2)
    return Fail(OptionProblem(absl::StrCat("model ", action, ": MODEL is missing")));
  if (words.size() > most) {
    return Fail(OptionProblem(absl::StrCat("unexpected argument '", words[most], "'")));
  }
  if (action == "diff" || action == "merge") {
    if (words.size() < most) {
      return Fail(OptionProblem(absl::StrCat("model ", action, ": an argument is missing")));
    }
    return action == "diff" ? Diff(words[1], words[2], json) : Merge(words[1], words[2], json);
  }
  const ReportForm form = json ? ReportForm::kJson : ReportForm::kText;
  ModelDirectory model(words[1]);
  if (action == "list") {
    const StatusOr<std::string> text = ListCheckpoints(model, form);
    if (!text.ok()) return Fail(text.status());
    std::cout << *text;
    return ExitCode::kOk;
  }
  const auto found = Find(model, words.size() == 3 ? &words[2] : nullptr);
  if (!found.ok()) return Fail(found.status());
  PrintWarnings(*found);
  if (action == "verify") {
    const ExitCode code = Verify(model, found->checkpoint, json);
    return found->warnings.empty() ? code : ExitCode::kRuntimeFailure;
  }
  const StatusOr<std::string> text = DescribeCheckpoint(found->checkpoint, form);
  if (!text.ok()) return Fail(text.status());
  std::cout << *text;
  return ExitCode::kOk;
}

}  // namespace simurgh
