// The files of a checkpoint: reading, checking and holding them.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/thread.h"
#include "model/checkpoint_files.h"
#include "model/held_files.h"

namespace simurgh {

bool IsDamage(const Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsOutOfRange(status);
}

std::string StepFolder(const std::string& model, uint64_t step) {
  return absl::StrCat(model, "/step-", step);
}

namespace {

constexpr uint64_t kReadBytes = uint64_t{4} << 20;

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

}  // namespace

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

StatusOr<Checkpoint> ReadCheckpoint(FileSystem& files, const std::string& model, uint64_t step) {
  Checkpoint checkpoint;
  checkpoint.folder = StepFolder(model, step);
  checkpoint.files = &files;
  const std::string path = checkpoint.folder + kManifest;
  StatusOr<std::string> text = files.ReadFile(path, Manifest::kMaxBytes);
  if (!text.ok()) {
    if (!IsDamage(text.status())) return text.status();
    return absl::DataLossError(
        absl::StrCat(text.status().message(), "; the checkpoint is damaged, use another one"));
  }
  StatusOr<Manifest> manifest = Manifest::FromJson(*text);
  if (!manifest.ok()) return Annotate(manifest.status(), path);
  checkpoint.manifest = *std::move(manifest);
  checkpoint.checksum = HashBytes(*text);
  checkpoint.has_checksum = Manifest::HasChecksum(*text);
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

Status CheckFiles(const Checkpoint& checkpoint) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<Checkpoint> chain, checkpoint.Chain());
  for (const Checkpoint& one : chain) {
    const std::vector<ModelFile>& files = one.manifest.files;
    const auto check = [&](size_t i) -> Status {
      const ModelFile& file = files[i];
      const std::string path = one.Path(file.path);
      SIMURGH_ASSIGN_OR_RETURN(const ModelFile found, Identify(*one.files, path));
      SIMURGH_RETURN_IF_ERROR(CompareFile(path, file, found));
      const bool is_large = file.path.starts_with("rows/") || file.path.starts_with("removed/") ||
                            file.path.starts_with("admission/");
      if (is_large || !file.path.ends_with(kTensorFile)) return absl::OkStatus();
      return VerifyTensors(*one.files, path, [](uint64_t) {});
    };
    SIMURGH_RETURN_IF_ERROR(ForEachAtOnce(files.size(), one.files->calls_at_once(), check));
  }
  return absl::OkStatus();
}

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
    if (!parent.ok() && !IsDamage(parent.status())) return parent.status();
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
    parent->held = held;
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

StatusOr<std::vector<std::string>> Checkpoint::Verify(const Progress& progress) const {
  std::vector<std::string> damage;
  StatusOr<std::vector<Checkpoint>> chain = Chain();
  if (!chain.ok()) {
    if (!IsDamage(chain.status())) return chain.status();
    damage.emplace_back(chain.status().message());
    chain = {*this};
  }
  for (const Checkpoint& one : *chain) {
    for (const ModelFile& file : one.manifest.files) {
      const std::string path = one.Path(file.path);
      uint64_t done = 0;
      const auto read = [&](uint64_t bytes) { progress(file.path, done += bytes, file.bytes); };
      read(0);
      const StatusOr<ModelFile> found = Identify(*files, path);
      Status status = found.ok() ? CompareFile(path, file, *found) : found.status();
      if (status.ok() && path.ends_with(kTensorFile)) status = VerifyTensors(*files, path, read);
      if (status.ok()) continue;
      if (!IsDamage(status)) return status;
      damage.emplace_back(status.message());
    }
  }
  return damage;
}

StatusOr<Checkpoint> Checkpoint::Hold() const {
  auto held_files = std::make_shared<HeldFiles>(*files);
  Checkpoint result = *this;
  StatusOr<std::vector<Checkpoint>> chain = Chain();
  if (!chain.ok()) {
    if (!IsDamage(chain.status())) return chain.status();
    chain = {*this};
  }
  for (const Checkpoint& one : *chain) {
    std::vector<std::string> paths{one.folder + kManifest};
    for (const ModelFile& file : one.manifest.files) paths.push_back(one.Path(file.path));
    for (const std::string& path : paths) {
      const Status opened = held_files->Hold(path);
      if (absl::IsResourceExhausted(opened)) return *this;  // One at a time may suffice.
      SIMURGH_RETURN_IF_ERROR(opened);
    }
  }
  // All files are those of this checkpoint if it still has its name: a missing one is damage.
  const StatusOr<std::string> text = files->ReadFile(folder + kManifest, Manifest::kMaxBytes);
  if (!text.ok() && !IsDamage(text.status())) return text.status();
  if (!text.ok() || HashBytes(*text) != checksum) {
    return absl::AbortedError(absl::StrCat(
        folder, ": the checkpoint was removed or replaced while it was read; try again"));
  }
  result.files = held_files.get();
  result.held = std::move(held_files);
  return result;
}

}  // namespace simurgh
