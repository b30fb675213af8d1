// Writes a checkpoint and those that it continues into one full checkpoint.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/model/model_report.h"
#include "simurgh/model/row_files.h"

namespace simurgh {
namespace {

Status MergeRows(SavedRows& server, const std::string& to) {
  const RowFile& newest = server.files.back();
  std::vector<TensorSpec> tensors = newest.reader.tensors();
  std::vector<std::string> names;
  for (TensorSpec& tensor : tensors) {
    if (tensor.shape.empty()) {
      return absl::DataLossError(
          absl::StrCat(newest.path, ": tensor ", tensor.name, " has no rows"));
    }
    tensor.shape[0] = server.rows;
    names.push_back(tensor.name);
  }
  SIMURGH_ASSIGN_OR_RETURN(TensorFileWriter writer,
                           TensorFileWriter::Create(to, tensors, newest.metadata));
  const uint64_t row_bytes = std::max<uint64_t>(tensors.empty() ? 0 : tensors[0].row_bytes(), 1);
  uint64_t written = 0;
  SIMURGH_RETURN_IF_ERROR(server.ForEachPiece(names, [&](SavedRows::Parts parts) {
    const uint64_t rows = parts[0].size() / row_bytes;
    written += rows;
    if (written > server.rows) return server.CheckCount(written);
    const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
    return writer.Append(rows, views);
  }));
  return writer.Finish().status();
}

Status CopyFile(const Checkpoint& checkpoint, const ModelFile& file, const std::string& to) {
  // Compared with the manifest before and, by Publish(), after.
  if (file.path.ends_with(".safetensors")) {
    SIMURGH_RETURN_IF_ERROR(checkpoint.OpenTensors(file.path).status());
  }
  constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
  FileSystem& files = FileSystem::Real();
  SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<File> from,
                           files.Open(checkpoint.Path(file.path)));
  SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<File> copy, files.Create(to));
  SIMURGH_RETURN_IF_ERROR(copy->Allocate(file.bytes));
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < file.bytes; at += piece.size()) {
    piece.resize(std::min(kPieceBytes, file.bytes - at));
    SIMURGH_RETURN_IF_ERROR(from->Read(at, piece));
    SIMURGH_RETURN_IF_ERROR(copy->Write(at, piece));
  }
  return copy->Sync();
}

}  // namespace

StatusOr<Checkpoint> MergeCheckpoint(const Checkpoint& checkpoint, const std::string& to) {
  ModelDirectory model(to);
  const StatusOr<std::vector<uint64_t>> steps = model.Steps();
  if (!steps.ok() && !absl::IsNotFound(steps.status())) return steps.status();
  if (steps.ok() && !steps->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(to, ": the folder has a model of step ",
                                                   steps->back(), " already; name another folder"));
  }
  SIMURGH_ASSIGN_OR_RETURN(std::vector<SavedRows> rows, OpenRows(checkpoint));
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t generation, model.NewGeneration());
  SIMURGH_RETURN_IF_ERROR(model.KeepRun(checkpoint.manifest.run, generation).status());
  SIMURGH_ASSIGN_OR_RETURN(CheckpointAttempt attempt,
                           model.Begin(checkpoint.manifest.step, generation));
  for (SavedRows& server : rows) {
    SIMURGH_ASSIGN_OR_RETURN(const std::string path, attempt.Path(server.name));
    SIMURGH_RETURN_IF_ERROR(MergeRows(server, path));
  }
  Manifest manifest = checkpoint.manifest;
  manifest.parent.reset();
  manifest.files.clear();
  for (const ModelFile& file : checkpoint.manifest.files) {
    if (!TableOf(file).empty() || file.path.starts_with("removed/")) continue;
    SIMURGH_ASSIGN_OR_RETURN(const std::string path, attempt.Path(file.path));
    SIMURGH_RETURN_IF_ERROR(CopyFile(checkpoint, file, path));
    manifest.files.push_back(file);
  }
  return attempt.Publish(std::move(manifest));
}

}  // namespace simurgh
