#include "model/model_directory.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/hash.h"
#include "base/thread.h"
#include "config/nearest.h"
#include "config/uri.h"
#include "model/checkpoint_files.h"

namespace simurgh {
namespace {

constexpr char kRemoved[] = ".removed";
constexpr char kDamaged[] = ".damaged";
constexpr char kBest[] = "/best";
constexpr char kRun[] = "/run";
constexpr char kHistory[] = "/history.jsonl";
// Size limit of the files `run`, `best`, `latest` and `pin`.
constexpr uint64_t kMaxNameBytes = 64;
constexpr uint64_t kMaxGeneration = (uint64_t{1} << 24) - 1;  // A run's number has 24 bits for it.

constexpr int kMostLooks = 100;  // Most tries to read a model that changes.

// Returns the second line of the file `best`, which many programs read.
std::string ChecksumLine(std::string_view name) {
  return absl::StrCat(absl::Hex(HashBytes(name), absl::kZeroPad16), "\n");
}

// Returns the N of "step-N/" or "generation-N".
std::optional<uint64_t> NumberIn(const std::string& name, std::string_view before,
                                 std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after)) return std::nullopt;
  const std::string digits =
      name.substr(before.size(), name.size() - std::min(name.size(), before.size() + after.size()));
  uint64_t number = 0;
  // SimpleAtoi alone would accept spaces and signs.
  const bool is_number = digits.find_first_not_of("0123456789") == digits.npos;
  if (!is_number || !absl::SimpleAtoi(digits, &number)) return std::nullopt;
  return number;
}

// Returns the suffix of names of what a generation has not finished.
std::string Unfinished(uint64_t generation) { return absl::StrCat(".tmp-", generation); }

// Removes a folder of the model. Renames it first: a half removed folder is no checkpoint.
Status RemoveFolder(FileSystem& files, const std::string& model, const std::string& name) {
  const std::string path = absl::StrCat(model, "/", name);
  const std::string removed = absl::StrCat(path, kRemoved);
  SIMURGH_RETURN_IF_ERROR(files.Remove(removed));
  const Status renamed = files.Rename(path, removed);
  if (absl::IsNotFound(renamed)) return absl::OkStatus();  // An older start has removed it.
  SIMURGH_RETURN_IF_ERROR(renamed);
  SIMURGH_RETURN_IF_ERROR(files.SyncFolder(model));
  return files.Remove(removed);
}

// Checks that no newer start has begun. Errors: FAILED_PRECONDITION if one has.
Status CheckNewest(FileSystem& files, const std::string& model, uint64_t generation) {
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t newest, ModelDirectory(model, files).HighestGeneration());
  if (newest <= generation) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(model, ": generation ", newest,
                                                    " has begun; generation ", generation,
                                                    " must end and write no checkpoint"));
}

// Writes a text file of the model, unless a newer start has begun. The newer start removes the file
// under its temporary name, so an older one that is late finds nothing to rename.
Status WriteName(FileSystem& files, const std::string& model, const char* name,
                 std::string_view text, uint64_t generation) {
  const auto check = [&] { return CheckNewest(files, model, generation); };
  const Status written =
      files.WriteFile(absl::StrCat(model, name), text, Unfinished(generation), check);
  if (absl::IsNotFound(written)) SIMURGH_RETURN_IF_ERROR(check());
  return written;
}

// Removes checkpoints in this order, unless a newer start has begun. The newer start takes the
// folder away that they are moved to, so an older one that is late moves nothing.
Status RemoveSteps(FileSystem& files, const std::string& model, const std::vector<uint64_t>& steps,
                   uint64_t generation) {
  if (steps.empty()) return absl::OkStatus();
  const std::string bin = absl::StrCat(model, "/removed", Unfinished(generation));
  SIMURGH_RETURN_IF_ERROR(files.Remove(bin));
  SIMURGH_RETURN_IF_ERROR(files.MakeFolder(bin));
  SIMURGH_RETURN_IF_ERROR(CheckNewest(files, model, generation));
  for (const uint64_t step : steps) {
    const Status moved = files.Rename(StepFolder(model, step), StepFolder(bin, step));
    if (absl::IsNotFound(moved)) {
      SIMURGH_RETURN_IF_ERROR(CheckNewest(files, model, generation));
      continue;  // Another process has removed it.
    }
    SIMURGH_RETURN_IF_ERROR(moved);
    SIMURGH_RETURN_IF_ERROR(files.SyncFolder(model));
  }
  return files.Remove(bin);
}

// Lists all files, by their paths below `folder`, and all folders.
Status Walk(FileSystem& files, const std::string& folder, const std::string& below,
            std::vector<std::string>* paths, std::vector<std::string>* folders) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder + "/" + below));
  for (const std::string& name : names) {
    if (name.ends_with('/')) {
      SIMURGH_RETURN_IF_ERROR(Walk(files, folder, below + name, paths, folders));
    } else {
      paths->push_back(below + name);
    }
  }
  folders->push_back(folder + "/" + below);
  return absl::OkStatus();
}

// Adds a remedy for a file that cannot be read: a start must not go back to an older checkpoint.
Status MayBeSound(const Status& status) {
  return Status(status.code(), absl::StrCat(status.message(),
                                            "; the checkpoint may be sound: make the file "
                                            "readable and try again, or move its folder away"));
}

// The valid checkpoints, the newest first, and what is wrong with the others.
struct Sorted {
  std::vector<Checkpoint> valid;
  std::vector<Status> damaged;
};

StatusOr<Sorted> SortCheckpoints(FileSystem& files, ModelDirectory& model) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, model.Steps());
  Sorted sorted;
  for (const uint64_t step : steps) {
    StatusOr<Checkpoint> checkpoint = ReadCheckpoint(files, model.path(), step);
    if (checkpoint.ok()) {
      sorted.valid.push_back(*std::move(checkpoint));
    } else if (IsDamage(checkpoint.status()) || absl::IsFailedPrecondition(checkpoint.status())) {
      sorted.damaged.push_back(checkpoint.status());
    } else {
      return MayBeSound(checkpoint.status());
    }
  }
  std::sort(sorted.valid.begin(), sorted.valid.end(), [](const Checkpoint& a, const Checkpoint& b) {
    return std::tuple(a.manifest.generation, a.manifest.step) >
           std::tuple(b.manifest.generation, b.manifest.step);
  });
  return sorted;
}

// Removes the deltas that continue a checkpoint which is about to be replaced, directly or not.
Status RemoveDeltasOf(FileSystem& files, const std::string& path, uint64_t step,
                      uint64_t generation) {
  ModelDirectory model(path, files);
  SIMURGH_ASSIGN_OR_RETURN(const Sorted sorted, SortCheckpoints(files, model));
  std::map<uint64_t, uint64_t> parents;
  for (const Checkpoint& one : sorted.valid) {
    if (one.manifest.parent) parents.emplace(one.manifest.step, one.manifest.parent->step);
  }
  std::set<uint64_t> unreadable{step};
  for (const auto& [delta, parent] : parents) {  // Parents have smaller steps.
    if (unreadable.contains(parent)) unreadable.insert(delta);
  }
  unreadable.erase(step);
  // Deltas come before the checkpoints that they continue.
  return RemoveSteps(files, path, {unreadable.rbegin(), unreadable.rend()}, generation);
}

}  // namespace

// --- An attempt.

CheckpointAttempt::CheckpointAttempt(FileSystem& files, std::string model, uint64_t step,
                                     uint64_t generation, uint32_t retry)
    : files_(&files),
      model_(std::move(model)),
      step_(step),
      generation_(generation),
      folder_(absl::StrCat(StepFolder(model_, step),
                           retry == 0 ? "" : absl::StrCat(".retry-", retry),
                           Unfinished(generation))) {}

CheckpointAttempt::CheckpointAttempt(CheckpointAttempt&& other) noexcept
    : files_(other.files_),
      model_(std::move(other.model_)),
      step_(other.step_),
      generation_(other.generation_),
      folder_(std::exchange(other.folder_, {})) {}

CheckpointAttempt::~CheckpointAttempt() {
  if (folder_.empty()) return;
  // Other processes may still write into it.
  RemoveFolder(*files_, model_, folder_.substr(model_.size() + 1)).IgnoreError();
}

StatusOr<std::string> CheckpointAttempt::Path(std::string_view file) {
  std::string path = absl::StrCat(folder_, "/", std::string(file));
  SIMURGH_RETURN_IF_ERROR(files_->MakeFolders(path.substr(0, path.rfind('/'))));
  return path;
}

StatusOr<Checkpoint> CheckpointAttempt::Publish(Manifest manifest) {
  std::vector<std::string> paths;
  std::vector<std::string> folders;
  SIMURGH_RETURN_IF_ERROR(Walk(*files_, folder_, "", &paths, &folders));
  SIMURGH_RETURN_IF_ERROR(files_->SyncFolders(folders));
  std::map<std::string, ModelFile> reported;
  for (ModelFile& file : manifest.files) reported.emplace(file.path, std::move(file));
  manifest.files.clear();
  std::vector<ModelFile> identified(paths.size());
  SIMURGH_RETURN_IF_ERROR(
      ForEachAtOnce(paths.size(), files_->calls_at_once(), [&](size_t i) -> Status {
        SIMURGH_ASSIGN_OR_RETURN(identified[i], Identify(*files_, folder_ + "/" + paths[i]));
        return absl::OkStatus();
      }));
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string& path = paths[i];
    ModelFile& found = identified[i];
    const auto expected = reported.find(path);
    if (expected != reported.end()) {
      SIMURGH_RETURN_IF_ERROR(CompareFile(found.path, expected->second, found));
      reported.erase(expected);
    }
    found.path = path;
    manifest.files.push_back(std::move(found));
  }
  if (!reported.empty()) {
    return absl::DataLossError(absl::StrCat(
        folder_, "/", reported.begin()->first,
        ": a process has written the file, and it is not there; all must see one folder"));
  }
  manifest.step = step_;
  manifest.generation = generation_;
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const ModelFile& a, const ModelFile& b) { return a.path < b.path; });

  const std::string text = manifest.ToJson();
  SIMURGH_RETURN_IF_ERROR(files_->WriteFile(folder_ + kManifest, text));
  SIMURGH_RETURN_IF_ERROR(files_->SyncFolder(folder_));
  SIMURGH_RETURN_IF_ERROR(CheckNewest(*files_, model_, generation_));
  Checkpoint done{.folder = StepFolder(model_, step_),
                  .manifest = std::move(manifest),
                  .checksum = HashBytes(text),
                  .files = files_};
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps,
                           ModelDirectory(model_, *files_).Steps());
  const bool replaces = std::binary_search(steps.begin(), steps.end(), step_);
  if (replaces) SIMURGH_RETURN_IF_ERROR(RemoveDeltasOf(*files_, model_, step_, generation_));
  SIMURGH_RETURN_IF_ERROR(replaces ? files_->Exchange(folder_, done.folder)
                                   : files_->Rename(folder_, done.folder));
  const std::string replaced = std::exchange(folder_, {});
  SIMURGH_RETURN_IF_ERROR(files_->SyncFolder(model_));
  if (replaces) SIMURGH_RETURN_IF_ERROR(files_->Remove(replaced));
  SIMURGH_RETURN_IF_ERROR(
      WriteName(*files_, model_, "/latest", absl::StrCat("step-", step_, "\n"), generation_));
  SIMURGH_RETURN_IF_ERROR(files_->SyncFolder(model_));
  return done;
}

// --- The directory.

ModelDirectory::ModelDirectory(const std::string& path, FileSystem& files)
    : path_(IsUri(path) ? BucketPath(path) : path), files_(files) {}

StatusOr<uint64_t> ModelDirectory::NewGeneration(uint64_t above) {
  if (IsUri(path_) && ModelFolderOf(path_) != path_) {
    return absl::InvalidArgumentError(
        path_ + ": the name is that of a checkpoint; give the model another one in the bucket");
  }
  SIMURGH_RETURN_IF_ERROR(files_.MakeFolders(path_));
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(const uint64_t newest, HighestGeneration());
    const uint64_t highest = std::max(newest, above);
    if (highest >= kMaxGeneration) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, "/generation-", highest, ": not a file of a training, which counts to ",
          kMaxGeneration, "; remove the file"));
    }
    const uint64_t mine = highest + 1;
    const Status created = files_.Create(absl::StrCat(path_, "/generation-", mine)).status();
    if (absl::IsAlreadyExists(created)) continue;
    SIMURGH_RETURN_IF_ERROR(created);
    // A newer start may have removed an older one's file of the same number meanwhile.
    SIMURGH_ASSIGN_OR_RETURN(const uint64_t highest_now, HighestGeneration());
    if (highest_now > mine) continue;
    SIMURGH_RETURN_IF_ERROR(files_.SyncFolder(path_));
    return mine;
  }
}

StatusOr<uint64_t> ModelDirectory::HighestGeneration() {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(path_));
  uint64_t highest = 0;
  for (const std::string& name : names) {
    highest = std::max(highest, NumberIn(name, "generation-", "").value_or(0));
  }
  return highest;
}

StatusOr<uint64_t> ModelDirectory::KeepRun(uint64_t proposed, uint64_t generation) {
  const StatusOr<uint64_t> kept = KeptRun();
  if (!absl::IsNotFound(kept.status())) return kept;
  SIMURGH_RETURN_IF_ERROR(
      WriteName(files_, path_, kRun, absl::StrCat(absl::Hex(proposed), "\n"), generation));
  SIMURGH_RETURN_IF_ERROR(files_.SyncFolder(path_));
  return KeptRun();
}

StatusOr<uint64_t> ModelDirectory::KeptRun() {
  const std::string path = path_ + kRun;
  SIMURGH_ASSIGN_OR_RETURN(const std::string kept, files_.ReadFile(path, kMaxNameBytes));
  uint64_t run = 0;
  if (kept.ends_with('\n') && absl::SimpleHexAtoi(kept.substr(0, kept.size() - 1), &run)) {
    return run;
  }
  return absl::DataLossError(path + ": not the number of a run; remove the file");
}

Status ModelDirectory::RemoveLeftovers(uint64_t generation) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(path_));
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(path_, "/", name);
    const size_t number = name.rfind('-') + 1;
    const bool is_folder = name.ends_with('/');
    const uint64_t of =
        NumberIn(name.substr(number), "", is_folder ? "/" : "").value_or(generation);
    if (name.ends_with(absl::StrCat(kRemoved, "/"))) {
      SIMURGH_RETURN_IF_ERROR(files_.Remove(path.substr(0, path.size() - 1)));
    } else if (is_folder && (name.starts_with("step-") || name.starts_with("removed")) &&
               name.find(".tmp-") != name.npos && of < generation) {
      SIMURGH_RETURN_IF_ERROR(RemoveFolder(files_, path_, name.substr(0, name.size() - 1)));
    } else if (!is_folder && of < generation &&
               (name.starts_with("generation-") || name.ends_with(Unfinished(of)))) {
      SIMURGH_RETURN_IF_ERROR(files_.Remove(path));
    }
  }
  SIMURGH_RETURN_IF_ERROR(files_.RemoveLost(path_));
  return files_.SyncFolder(path_);
}

StatusOr<CheckpointAttempt> ModelDirectory::Begin(uint64_t step, uint64_t generation,
                                                  uint32_t retry) {
  CheckpointAttempt attempt(files_, path_, step, generation, retry);
  SIMURGH_RETURN_IF_ERROR(files_.Remove(attempt.folder()));
  SIMURGH_RETURN_IF_ERROR(files_.MakeFolders(attempt.folder()));
  return attempt;
}

namespace {

bool HasSteps(const std::vector<std::string>& names) {
  return std::ranges::any_of(
      names, [](const std::string& name) { return NumberIn(name, "step-", "/").has_value(); });
}

// The folders in a folder that have checkpoints; of very many folders, the first.
std::vector<std::string> ModelsIn(FileSystem& files, const std::string& folder) {
  constexpr size_t kMaxFolders = 500;
  std::vector<std::string> models;
  size_t folders = 0;
  for (const std::string& name : files.List(folder).value_or(std::vector<std::string>{})) {
    if (!name.ends_with('/') || ++folders > kMaxFolders) continue;
    const std::string plain = name.substr(0, name.size() - 1);
    const StatusOr<std::vector<std::string>> inner = files.List(absl::StrCat(folder, "/", plain));
    if (inner.ok() && HasSteps(*inner)) models.push_back(plain);
  }
  return models;
}

// Folders of a bucket are not searched: it can have millions of objects.
std::string RemedyInBucket(FileSystem& files, const std::string& folder,
                           const std::string& parent) {
  if (files.List(folder).ok()) {
    return "the training has saved none yet, or has another checkpoint.directory";
  }
  const bool has_parent = IsUri(parent) && !BucketPathError(parent);
  const StatusOr<std::vector<std::string>> above =
      has_parent ? FileSystem::For(parent).List(parent) : absl::NotFoundError("");
  if (above.ok() && HasSteps(*above)) return "the folder above is a model; give " + parent;
  return "correct the path; `?endpoint_override=HOST:PORT` or AWS_ENDPOINT_URL names the store";
}

// Returns what a folder without checkpoints is, or what is near a path that is no folder.
std::string RemedyOf(FileSystem& files, const std::string& path) {
  const std::filesystem::path folder = AbsoluteFolder(path);
  const std::string parent = folder.parent_path().string();
  if (IsUri(path)) return RemedyInBucket(files, folder.string(), parent);
  if (const StatusOr<std::vector<std::string>> names = files.List(folder.string()); names.ok()) {
    if (std::ranges::find(*names, "manifest.json") != names->end()) {
      return absl::StrCat("it is one itself; give the model's folder, ", parent);
    }
    const std::vector<std::string> inner = ModelsIn(files, folder.string());
    if (!inner.empty()) return absl::StrCat("give a model in it: ", absl::StrJoin(inner, ", "));
    return "the training has saved none yet, or has another checkpoint.directory";
  }
  const StatusOr<std::vector<std::string>> above = files.List(parent);
  if (!above.ok()) return absl::StrCat("there is no folder ", parent, " either");
  if (HasSteps(*above)) return absl::StrCat("the folder above is a model; give ", parent);
  return absl::StrCat("in ", parent, ", ",
                      NearestRemedy("model", folder.filename().string(), ModelsIn(files, parent)));
}

}  // namespace

StatusOr<std::vector<uint64_t>> ModelDirectory::Steps() {
  const StatusOr<std::vector<std::string>> names = files_.List(path_);
  if (absl::IsNotFound(names.status())) {
    return absl::NotFoundError(
        absl::StrCat(names.status().message(), "; ", RemedyOf(files_, path_)));
  }
  SIMURGH_RETURN_IF_ERROR(names.status());
  std::vector<uint64_t> steps;
  for (const std::string& name : *names) {
    const std::optional<uint64_t> step = NumberIn(name, "step-", "/");
    if (step.has_value()) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

StatusOr<Checkpoint> ModelDirectory::Open(uint64_t step) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<uint64_t> steps, Steps());
  if (std::binary_search(steps.begin(), steps.end(), step)) {
    StatusOr<Checkpoint> checkpoint = ReadCheckpoint(files_, path_, step);
    if (checkpoint.ok()) return checkpoint;
    // A training that goes on may have removed it meanwhile.
    SIMURGH_ASSIGN_OR_RETURN(steps, Steps());
    if (std::binary_search(steps.begin(), steps.end(), step)) return checkpoint;
  }
  return absl::NotFoundError(absl::StrCat(path_, ": there is no checkpoint of step ", step,
                                          steps.empty() ? "" : "; use ",
                                          absl::StrJoin(steps, " or ")));
}

Status ModelDirectory::SetBest(std::optional<uint64_t> step, uint64_t generation) {
  if (step) {
    const std::string name = absl::StrCat("step-", *step, "\n");
    SIMURGH_RETURN_IF_ERROR(WriteName(files_, path_, kBest, name + ChecksumLine(name), generation));
  } else {
    SIMURGH_RETURN_IF_ERROR(CheckNewest(files_, path_, generation));
    SIMURGH_RETURN_IF_ERROR(files_.Remove(path_ + kBest));
  }
  return files_.SyncFolder(path_);
}

StatusOr<std::optional<uint64_t>> ModelDirectory::BestStep() { return NamedStep(kBest); }

StatusOr<std::optional<uint64_t>> ModelDirectory::LatestStep() { return NamedStep("/latest"); }

StatusOr<std::optional<uint64_t>> ModelDirectory::NamedStep(const char* file) {
  const std::string path = path_ + file;
  const StatusOr<std::string> text = files_.ReadFile(path, kMaxNameBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  SIMURGH_RETURN_IF_ERROR(text.status());
  const std::string name = text->substr(0, text->find('\n') + 1);
  const std::string rest = text->substr(name.size());
  const std::optional<uint64_t> step = NumberIn(name, "step-", "\n");
  if (step && (rest.empty() || rest == ChecksumLine(name))) return step;
  return absl::DataLossError(path + ": not the name of a checkpoint; remove the file");
}

StatusOr<std::string> ModelDirectory::ReadHistory() {
  return files_.ReadFile(path_ + kHistory, UINT64_MAX);
}

Status ModelDirectory::WriteHistory(std::string_view text, uint64_t generation) {
  SIMURGH_RETURN_IF_ERROR(WriteName(files_, path_, kHistory, text, generation));
  return files_.SyncFolder(path_);
}

StatusOr<std::optional<uint64_t>> ModelDirectory::PinnedStep() {
  const std::string path = path_ + "/pin";
  const StatusOr<std::string> text = files_.ReadFile(path, kMaxNameBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  SIMURGH_RETURN_IF_ERROR(text.status());
  uint64_t step = 0;
  // A line of a shell: "1200" or "step-1200".
  if (absl::SimpleAtoi(absl::StripPrefix(absl::StripAsciiWhitespace(*text), "step-"), &step)) {
    return step;
  }
  return absl::InvalidArgumentError(path +
                                    ": not a step, such as 1200; correct or remove the file");
}

StatusOr<ModelDirectory::Newest> ModelDirectory::LookForLatest() {
  SIMURGH_ASSIGN_OR_RETURN(Sorted sorted, SortCheckpoints(files_, *this));
  std::vector<std::string> warnings;
  for (const Status& status : sorted.damaged) {
    if (absl::IsFailedPrecondition(status)) return status;
    warnings.emplace_back(status.message());
  }
  for (Checkpoint& checkpoint : sorted.valid) {
    const Status whole = CheckFiles(checkpoint);
    if (whole.ok()) return Newest{std::move(checkpoint), std::move(warnings)};
    if (!IsDamage(whole)) return MayBeSound(whole);
    warnings.emplace_back(whole.message());
  }
  if (warnings.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path_, ": there is no checkpoint; ", RemedyOf(files_, path_)));
  }
  return absl::DataLossError(
      absl::StrCat(path_, ": all checkpoints are damaged: ", absl::StrJoin(warnings, "; ")));
}

StatusOr<ModelDirectory::Newest> ModelDirectory::Latest() {
  StatusOr<Newest> newest = LookForLatest();
  for (int looks = 1; looks < kMostLooks; ++looks) {
    const bool is_damaged = newest.ok() ? !newest->warnings.empty() : IsDamage(newest.status());
    if (!is_damaged) break;
    // A training that goes on may have removed what was read.
    StatusOr<Newest> again = LookForLatest();
    const bool is_same =
        newest.ok() == again.ok() &&
        (newest.ok() ? newest->warnings == again->warnings : newest.status() == again.status());
    newest = std::move(again);
    if (is_same) break;
  }
  return newest;
}

Status ModelDirectory::SetAside(uint64_t step) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, Steps());
  if (steps.size() < 2) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": there is no other checkpoint"));
  }
  const std::string folder = StepFolder(path_, step);
  SIMURGH_RETURN_IF_ERROR(files_.Remove(folder + kDamaged));
  SIMURGH_RETURN_IF_ERROR(files_.Rename(folder, folder + kDamaged));
  return files_.SyncFolder(path_);
}

StatusOr<ModelDirectory::Newest> ModelDirectory::FindHeld(
    absl::FunctionRef<StatusOr<Newest>()> find) {
  for (int looks = 1;; ++looks) {
    StatusOr<Newest> found = find();
    StatusOr<Checkpoint> held = found.ok() ? found->checkpoint.Hold() : found.status();
    if (absl::IsAborted(held.status()) && looks < kMostLooks) continue;
    SIMURGH_RETURN_IF_ERROR(held.status());
    found->checkpoint = *std::move(held);
    return found;
  }
}

StatusOr<ModelDirectory::Newest> ModelDirectory::Find(const std::string& path) {
  const std::filesystem::path folder = AbsoluteFolder(path);
  const std::optional<uint64_t> step = NumberIn(folder.filename().string(), "step-", "");
  if (!step) return ModelDirectory(folder.string()).Latest();
  SIMURGH_ASSIGN_OR_RETURN(Checkpoint checkpoint,
                           ModelDirectory(folder.parent_path().string()).Open(*step));
  return Newest{std::move(checkpoint), {}};
}

StatusOr<ModelDirectory::Newest> ModelDirectory::FindBest(const std::string& path) {
  ModelDirectory model(AbsoluteFolder(path));
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> best, model.BestStep());
  if (!best) return Find(path);
  SIMURGH_ASSIGN_OR_RETURN(Checkpoint checkpoint, model.Open(*best));
  return Newest{std::move(checkpoint), {}};
}

StatusOr<std::vector<uint64_t>> ModelDirectory::Seal() {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, Steps());
  // New text of each step's manifest. Parents have smaller steps.
  std::map<uint64_t, std::string> texts;
  std::vector<uint64_t> changed;
  for (const uint64_t step : steps) {
    const std::string path = StepFolder(path_, step) + kManifest;
    SIMURGH_ASSIGN_OR_RETURN(const std::string text, files_.ReadFile(path, Manifest::kMaxBytes));
    StatusOr<Manifest> manifest = Manifest::FromJson(text, Manifest::Checksum::kIgnored);
    if (!manifest.ok()) return Annotate(manifest.status(), path);
    const auto parent = texts.find(manifest->parent ? manifest->parent->step : step);
    if (parent != texts.end()) manifest->parent->checksum = HashBytes(parent->second);
    texts[step] = manifest->ToJson();
    if (texts[step] != text) changed.push_back(step);
  }
  for (const uint64_t step : changed) {
    const std::string folder = StepFolder(path_, step);
    SIMURGH_RETURN_IF_ERROR(files_.WriteFile(folder + kManifest, texts[step]));
    SIMURGH_RETURN_IF_ERROR(files_.SyncFolder(folder));
  }
  return changed;
}

Status ModelDirectory::KeepNewest(size_t count, const std::set<uint64_t>& except,
                                  uint64_t generation) {
  SIMURGH_ASSIGN_OR_RETURN(const Sorted sorted, SortCheckpoints(files_, *this));
  std::map<uint64_t, const Checkpoint*> by_step;
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> pinned, PinnedStep());
  std::vector<uint64_t> kept(except.begin(), except.end());
  if (pinned) kept.push_back(*pinned);
  for (const Checkpoint& checkpoint : sorted.valid) {
    if (by_step.size() < count) kept.push_back(checkpoint.manifest.step);
    by_step.emplace(checkpoint.manifest.step, &checkpoint);
  }
  // Takes the kept checkpoints and their parents out of by_step; the rest is removed.
  while (!kept.empty()) {
    const auto found = by_step.find(kept.back());
    kept.pop_back();
    if (found == by_step.end()) continue;
    const auto& parent = found->second->manifest.parent;
    by_step.erase(found);
    if (parent.has_value()) kept.push_back(parent->step);
  }
  // Deltas come before the checkpoints that they continue.
  std::vector<uint64_t> steps;
  for (auto at = by_step.rbegin(); at != by_step.rend(); ++at) steps.push_back(at->first);
  return RemoveSteps(files_, path_, steps, generation);
}

}  // namespace simurgh
