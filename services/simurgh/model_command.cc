#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "model/model_directory.h"
#include "model/model_report.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "services/simurgh/progress.h"

namespace simurgh {
namespace {

constexpr char kModelNotes[] =
    R"(MODEL is a model's folder, or s3://BUCKET/PREFIX. Without STEP, the newest checkpoint is used. diff and merge
also take a checkpoint's folder, MODEL/step-N. merge writes a checkpoint, with those that it
continues, as a full one into the new model OUT. seal renews the checksums of manifests that
you have edited; no training may save to MODEL meanwhile. history prints the reports of
the training, a JSON object a line.

Exit codes: 0 done, 2 bad arguments, 3 damaged or unreadable, or failed otherwise.
)";

StatusOr<ExitCode> Verify(const Checkpoint& checkpoint, bool json) {
  ProgressLine progress;
  uint64_t files = 0;
  const auto show = [&](const std::string& /*file*/, uint64_t bytes, uint64_t /*of*/) {
    if (bytes == 0) ++files;
    progress.Show("verifying", "files", files, "");
  };
  SIMURGH_ASSIGN_OR_RETURN(const auto damage, checkpoint.Verify(show));
  progress.End();
  for (const std::string& one : damage) std::cerr << "simurgh: " << one << "\n";
  if (!checkpoint.has_checksum) {
    PrintWarnings({absl::StrCat(checkpoint.Path("manifest.json"),
                                ": an older version saved it, without a checksum of itself; "
                                "`simurgh model seal` adds one")});
  }
  if (json) {
    PrintJson({{"folder", checkpoint.folder},
               {"files", checkpoint.manifest.files.size()},
               {"damage", damage}});
  } else if (damage.empty()) {
    std::cout << checkpoint.folder << ": all " << checkpoint.manifest.files.size()
              << " files are sound\n";
  }
  return damage.empty() ? ExitCode::kOk : ExitCode::kRuntimeFailure;
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

// path: see ModelDirectory::Find.
StatusOr<Checkpoint> FindByPath(const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(ModelDirectory::Newest found,
                           ModelDirectory::FindHeld([&] { return ModelDirectory::Find(path); }));
  PrintWarnings(found.warnings);
  return std::move(found.checkpoint);
}

StatusOr<ExitCode> Diff(const std::string& model, const std::string& other, bool json) {
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint a, FindByPath(model));
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint b, FindByPath(other));
  SIMURGH_ASSIGN_OR_RETURN(const std::string text, DescribeDifferences(a, b));
  if (json) {
    const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    PrintJson({{"differences", lines}});
  } else {
    std::cout << text;
  }
  return ExitCode::kOk;
}

StatusOr<ExitCode> Merge(const std::string& model, const std::string& to, bool json) {
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, FindByPath(model));
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint merged, MergeCheckpoint(checkpoint, to));
  if (json) {
    PrintJson({{"folder", merged.folder}});
  } else {
    std::cout << merged.folder << "\n";
  }
  return ExitCode::kOk;
}

StatusOr<ExitCode> Seal(ModelDirectory& model, bool json) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, model.Seal());
  if (json) {
    PrintJson({{"sealed", steps}});
    return ExitCode::kOk;
  }
  for (const uint64_t step : steps) std::cout << "sealed step-" << step << "\n";
  if (steps.empty()) std::cout << "all manifests have their checksums\n";
  return ExitCode::kOk;
}

StatusOr<ExitCode> Run(const std::vector<std::string>& words, bool json) {
  const std::string action = words.empty() ? "" : words[0];
  const bool needs_two = action == "diff" || action == "merge";
  const bool needs_one = action == "list" || action == "seal" || action == "history";
  if (!needs_two && !needs_one && action != "info" && action != "verify") {
    return OptionProblem(
        absl::StrCat("model: '", action,
                     "' is not an action; use list, info, history, verify, diff, merge or seal"));
  }
  if (words.size() < 2) return OptionProblem(absl::StrCat("model ", action, ": MODEL is missing"));
  SIMURGH_RETURN_IF_ERROR(CheckModelPath(words[1]));
  if (needs_two) {
    if (words.size() < 3) {
      return OptionProblem(absl::StrCat("model ", action, ": an argument is missing"));
    }
    return action == "diff" ? Diff(words[1], words[2], json) : Merge(words[1], words[2], json);
  }
  const ReportForm form = json ? ReportForm::kJson : ReportForm::kText;
  ModelDirectory model(words[1]);
  if (needs_one && words.size() > 2) {
    return OptionProblem(absl::StrCat("unexpected argument '", words[2], "'"));
  }
  if (action == "seal") return Seal(model, json);
  if (action == "history") {
    const StatusOr<std::string> text = model.ReadHistory();
    if (absl::IsNotFound(text.status()))
      SIMURGH_RETURN_IF_ERROR(model.Steps().status());
    else
      SIMURGH_RETURN_IF_ERROR(text.status());
    std::cout << text.value_or("");
    return ExitCode::kOk;
  }
  if (action == "list") {
    SIMURGH_ASSIGN_OR_RETURN(const std::string text, ListCheckpoints(model, form));
    std::cout << text;
    return ExitCode::kOk;
  }
  SIMURGH_ASSIGN_OR_RETURN(const ModelDirectory::Newest found, ModelDirectory::FindHeld([&] {
                             return Find(model, words.size() == 3 ? &words[2] : nullptr);
                           }));
  PrintWarnings(found.warnings);
  if (action == "verify") {
    SIMURGH_ASSIGN_OR_RETURN(const ExitCode code, Verify(found.checkpoint, json));
    return found.warnings.empty() ? code : ExitCode::kRuntimeFailure;
  }
  SIMURGH_ASSIGN_OR_RETURN(const std::string text, DescribeCheckpoint(found.checkpoint, form));
  std::cout << text;
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunModelCommand(int argc, const char* const* argv) {
  boost::program_options::options_description options("Options");
  bool json = false;
  AddJsonOption(options, &json);
  return RunCommand(argc, argv,
                    {"model: shows and checks trained models", kModelUsage, kModelNotes}, options,
                    3, [&](const auto& words) { return Run(words, json); });
}

}  // namespace simurgh
