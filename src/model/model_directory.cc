#include "simurgh/model/model_directory.h"

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

#include "simurgh/base/hash.h"
#include "simurgh/config/nearest.h"
#include "simurgh/model/tensor_file.h"

namespace simurgh {
namespace {

constexpr char kManifest[] = "/manifest.json";
constexpr std::string_view kTensorFile = ".safetensors";
constexpr char kRemoved[] = ".removed";
constexpr char kDamaged[] = ".damaged";
constexpr char kBest[] = "/best";
constexpr char kRun[] = "/run";
constexpr uint64_t kMaxNameBytes = 32;                        // Of a run or a step.
constexpr uint64_t kMaxGeneration = (uint64_t{1} << 24) - 1;  // A run's number has 24 bits for it.
constexpr uint64_t kReadBytes = uint64_t{4} << 20;

// The N of "step-N/" or "generation-N".
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

std::string StepFolder(const std::string& model, uint64_t step) {
  return absl::StrCat(model, "/step-", step);
}

// Ends the names of what a generation has not finished.
std::string Unfinished(uint64_t generation) { return absl::StrCat(".tmp-", generation); }

// Removes a folder of the model. A new name first: what is half removed is no checkpoint.
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

// Errors: FAILED_PRECONDITION once a newer start has begun.
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

// Calls part(bytes) for the content of a file, piece by piece.
template <typename Part>
Status ReadPieces(FileSystem& files, const std::string& path, Part part) {
  SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.Open(path));
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::vector<std::byte> buffer(std::min(size, kReadBytes));
  for (uint64_t at = 0; at < size; at += buffer.size()) {
    buffer.resize(std::min(kReadBytes, size - at));
    SIMURGH_RETURN_IF_ERROR(file->Read(at, buffer));
    part(std::span<const std::byte>(buffer));
  }
  return absl::OkStatus();
}

StatusOr<ModelFile> Identify(FileSystem& files, const std::string& path) {
  if (path.ends_with(kTensorFile)) {
    SIMURGH_ASSIGN_OR_RETURN(const TensorFileReader reader, TensorFileReader::Open(path, files));
    if (!reader.has_sums()) {
      return absl::DataLossError(absl::StrCat(
          path, ": there is no tensor sums; the file is damaged or of another program"));
    }
    return reader.file();
  }
  ModelFile file{.path = path};
  ByteHasher hasher;
  SIMURGH_RETURN_IF_ERROR(ReadPieces(files, path, [&](std::span<const std::byte> bytes) {
    hasher.Update(bytes);
    file.bytes += bytes.size();
  }));
  file.hash = hasher.Finish();
  return file;
}

Status CompareFile(const std::string& path, const ModelFile& expected, const ModelFile& found) {
  if (expected.bytes == found.bytes && expected.hash == found.hash) return absl::OkStatus();
  const auto text = [](const ModelFile& file) {
    return absl::StrCat(file.bytes, " bytes with the hash ",
                        absl::Hex(file.hash, absl::kZeroPad16));
  };
  return absl::DataLossError(absl::StrCat(path, ": the file has ", text(found),
                                          "; the manifest has ", text(expected),
                                          "; use another checkpoint"));
}

// Lists all files, by their paths below `folder`, and syncs all folders.
Status Walk(FileSystem& files, const std::string& folder, const std::string& below,
            std::vector<std::string>* paths) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder + "/" + below));
  for (const std::string& name : names) {
    if (name.ends_with('/')) {
      SIMURGH_RETURN_IF_ERROR(Walk(files, folder, below + name, paths));
    } else {
      paths->push_back(below + name);
    }
  }
  return files.SyncFolder(folder + "/" + below);
}

StatusOr<Checkpoint> ReadCheckpoint(FileSystem& files, const std::string& model, uint64_t step) {
  Checkpoint checkpoint;
  checkpoint.folder = StepFolder(model, step);
  checkpoint.files = &files;
  const std::string path = checkpoint.folder + kManifest;
  StatusOr<std::string> text = files.ReadFile(path, Manifest::kMaxBytes);
  if (!text.ok()) {
    return absl::DataLossError(
        absl::StrCat(text.status().message(), "; the checkpoint is damaged, use another one"));
  }
  StatusOr<Manifest> manifest = Manifest::FromJson(*text);
  if (!manifest.ok()) return Annotate(manifest.status(), path);
  checkpoint.manifest = *std::move(manifest);
  checkpoint.checksum = HashBytes(*text);
  if (checkpoint.manifest.step == step) return checkpoint;
  return absl::DataLossError(absl::StrCat(path, ": step: the folder is for step ", step,
                                          " and the manifest for ", checkpoint.manifest.step,
                                          "; give the folder its name back"));
}

Status VerifyTensors(FileSystem& files, const std::string& path,
                     const std::function<void(uint64_t)>& read) {
  SIMURGH_ASSIGN_OR_RETURN(TensorFileReader reader, TensorFileReader::Open(path, files));
  std::vector<std::byte> buffer;
  for (const TensorSpec& tensor : reader.tensors()) {
    const uint64_t row_bytes = std::max<uint64_t>(tensor.row_bytes(), 1);
    const uint64_t rows_at_once = std::clamp<uint64_t>(kReadBytes / row_bytes, 1, kRowsPerSum);
    for (uint64_t row = 0; row < tensor.rows() && tensor.row_bytes() > 0; row += rows_at_once) {
      const uint64_t rows = std::min(rows_at_once, tensor.rows() - row);
      buffer.resize(rows * row_bytes);
      SIMURGH_RETURN_IF_ERROR(reader.Read(tensor.name, row, rows, buffer));
      read(buffer.size());
    }
  }
  return absl::OkStatus();
}

// Finds damage of all that a start of training reads, but for the rows: their checksums are
// compared when the servers load them.
Status CheckFiles(FileSystem& files, const Checkpoint& checkpoint) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<Checkpoint> chain, checkpoint.Chain());
  for (const Checkpoint& one : chain) {
    for (const ModelFile& file : one.manifest.files) {
      const std::string path = one.Path(file.path);
      SIMURGH_ASSIGN_OR_RETURN(const ModelFile found, Identify(files, path));
      SIMURGH_RETURN_IF_ERROR(CompareFile(path, file, found));
      const bool is_large = file.path.starts_with("rows/") || file.path.starts_with("removed/") ||
                            file.path.starts_with("admission/");
      if (is_large || !file.path.ends_with(kTensorFile)) continue;
      SIMURGH_RETURN_IF_ERROR(VerifyTensors(files, path, [](uint64_t) {}));
    }
  }
  return absl::OkStatus();
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
    } else {
      sorted.damaged.push_back(checkpoint.status());
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
  // Deltas before those that they continue.
  return RemoveSteps(files, path, {unreadable.rbegin(), unreadable.rend()}, generation);
}

}  // namespace

std::string Checkpoint::Path(std::string_view file) const {
  return absl::StrCat(folder, "/", std::string(file));
}

bool Checkpoint::Has(std::string_view file) const {
  return std::ranges::find(manifest.files, file, &ModelFile::path) != manifest.files.end();
}

StatusOr<std::vector<Checkpoint>> Checkpoint::Chain() const {
  std::vector<Checkpoint> chain = {*this};
  const std::string model = folder.substr(0, folder.rfind('/'));
  while (chain.back().manifest.parent.has_value()) {
    const Checkpoint& child = chain.back();
    const Manifest::Parent wanted = *child.manifest.parent;
    StatusOr<Checkpoint> parent = ReadCheckpoint(*files, model, wanted.step);
    if (!parent.ok()) {
      return absl::DataLossError(
          absl::StrCat(child.folder, ": this is a delta of step ", wanted.step,
                       ", which is not readable: ", parent.status().message(), "; put step-",
                       wanted.step, " of the same model next to it, or use a full checkpoint"));
    }
    if (parent->checksum != wanted.checksum) {
      return absl::DataLossError(
          absl::StrCat(child.folder, ": this is a delta of step ", wanted.step,
                       " with the checksum ", absl::Hex(wanted.checksum, absl::kZeroPad16), "; ",
                       parent->folder, " is another checkpoint, with the checksum ",
                       absl::Hex(parent->checksum, absl::kZeroPad16), "; put step-", wanted.step,
                       " of the same model next to it, or use a full checkpoint"));
    }
    chain.push_back(*std::move(parent));
  }
  return chain;
}

Status Checkpoint::CheckListed(const ModelFile& found, std::string_view file) const {
  const auto listed = std::ranges::find(manifest.files, file, &ModelFile::path);
  if (listed == manifest.files.end()) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": manifest.json does not list ", std::string(file)));
  }
  return CompareFile(Path(file), *listed, found);
}

StatusOr<TensorFileReader> Checkpoint::OpenTensors(std::string_view file) const {
  SIMURGH_ASSIGN_OR_RETURN(TensorFileReader reader, TensorFileReader::Open(Path(file), *files));
  SIMURGH_RETURN_IF_ERROR(CheckListed(reader.file(), file));
  if (reader.has_sums()) return reader;
  return absl::DataLossError(
      absl::StrCat(Path(file), ": it has no checksums; use another checkpoint"));
}

StatusOr<std::string> Checkpoint::ReadText(std::string_view file, uint64_t max_bytes) const {
  SIMURGH_ASSIGN_OR_RETURN(std::string text, files->ReadFile(Path(file), max_bytes));
  SIMURGH_RETURN_IF_ERROR(
      CheckListed({.path = {}, .bytes = text.size(), .hash = HashBytes(text)}, file));
  return text;
}

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
  SIMURGH_RETURN_IF_ERROR(Walk(*files_, folder_, "", &paths));
  std::map<std::string, ModelFile> reported;
  for (ModelFile& file : manifest.files) reported.emplace(file.path, std::move(file));
  manifest.files.clear();
  for (const std::string& path : paths) {
    SIMURGH_ASSIGN_OR_RETURN(ModelFile found, Identify(*files_, folder_ + "/" + path));
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
  Checkpoint done{StepFolder(model_, step_), std::move(manifest), HashBytes(text), files_};
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

StatusOr<uint64_t> ModelDirectory::NewGeneration(uint64_t above) {
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

// What a folder without checkpoints is, or what is near a path that is no folder.
std::string RemedyOf(FileSystem& files, const std::string& path) {
  std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "MODEL/"
  const std::string parent = folder.parent_path().string();
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
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, Steps());
  if (std::binary_search(steps.begin(), steps.end(), step)) {
    return ReadCheckpoint(files_, path_, step);
  }
  return absl::NotFoundError(absl::StrCat(path_, ": there is no checkpoint of step ", step,
                                          steps.empty() ? "" : "; use ",
                                          absl::StrJoin(steps, " or ")));
}

Status ModelDirectory::SetBest(std::optional<uint64_t> step, uint64_t generation) {
  if (step) {
    SIMURGH_RETURN_IF_ERROR(
        WriteName(files_, path_, kBest, absl::StrCat("step-", *step, "\n"), generation));
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
  const std::optional<uint64_t> step = NumberIn(*text, "step-", "\n");
  if (step) return step;
  return absl::DataLossError(path + ": not the name of a checkpoint; remove the file");
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

StatusOr<ModelDirectory::Newest> ModelDirectory::Latest() {
  SIMURGH_ASSIGN_OR_RETURN(Sorted sorted, SortCheckpoints(files_, *this));
  std::vector<std::string> warnings;
  for (const Status& status : sorted.damaged) {
    if (absl::IsFailedPrecondition(status)) return status;
    warnings.emplace_back(status.message());
  }
  for (Checkpoint& checkpoint : sorted.valid) {
    const Status whole = CheckFiles(files_, checkpoint);
    if (whole.ok()) return Newest{std::move(checkpoint), std::move(warnings)};
    warnings.emplace_back(whole.message());
  }
  if (warnings.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path_, ": there is no checkpoint; ", RemedyOf(files_, path_)));
  }
  return absl::DataLossError(
      absl::StrCat(path_, ": all checkpoints are damaged: ", absl::StrJoin(warnings, "; ")));
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

StatusOr<ModelDirectory::Newest> ModelDirectory::Find(const std::string& path) {
  std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "MODEL/"
  const std::optional<uint64_t> step = NumberIn(folder.filename().string(), "step-", "");
  if (!step) return ModelDirectory(folder.string()).Latest();
  SIMURGH_ASSIGN_OR_RETURN(Checkpoint checkpoint,
                           ModelDirectory(folder.parent_path().string()).Open(*step));
  return Newest{std::move(checkpoint), {}};
}

StatusOr<ModelDirectory::Newest> ModelDirectory::FindBest(const std::string& path) {
  ModelDirectory model(std::filesystem::absolute(path).lexically_normal().string());
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> best, model.BestStep());
  if (!best) return Find(path);
  SIMURGH_ASSIGN_OR_RETURN(Checkpoint checkpoint, model.Open(*best));
  return Newest{std::move(checkpoint), {}};
}

StatusOr<std::vector<std::string>> ModelDirectory::Verify(uint64_t step, const Progress& progress) {
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Open(step));
  std::vector<std::string> damage;
  StatusOr<std::vector<Checkpoint>> chain = checkpoint.Chain();
  if (!chain.ok()) {
    damage.emplace_back(chain.status().message());
    chain = {checkpoint};
  }
  for (const Checkpoint& one : *chain) {
    for (const ModelFile& file : one.manifest.files) {
      const std::string path = one.Path(file.path);
      uint64_t done = 0;
      const auto read = [&](uint64_t bytes) { progress(file.path, done += bytes, file.bytes); };
      read(0);
      const StatusOr<ModelFile> found = Identify(files_, path);
      Status status = found.ok() ? CompareFile(path, file, *found) : found.status();
      if (status.ok() && path.ends_with(kTensorFile)) status = VerifyTensors(files_, path, read);
      if (!status.ok()) damage.emplace_back(status.message());
    }
  }
  return damage;
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
  // What is left of by_step after its parents are taken out can go.
  while (!kept.empty()) {
    const auto found = by_step.find(kept.back());
    kept.pop_back();
    if (found == by_step.end()) continue;
    const auto& parent = found->second->manifest.parent;
    by_step.erase(found);
    if (parent.has_value()) kept.push_back(parent->step);
  }
  // Deltas before those that they continue.
  std::vector<uint64_t> steps;
  for (auto at = by_step.rbegin(); at != by_step.rend(); ++at) steps.push_back(at->first);
  return RemoveSteps(files_, path_, steps, generation);
}

}  // namespace simurgh
