#include "services/embedding_ps/row_saver.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "simurgh/base/log.h"
#include "simurgh/model/tensor_file.h"

namespace simurgh {
namespace {

// Bounds the time that a partition's thread copies before it serves the next request.
constexpr size_t kRowsPerPiece = 4'096;

// A peer names the folder: it must not lead out of the directory.
Status CheckFolder(const std::string& name) {
  const bool is_plain = std::ranges::all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
  });
  if (is_plain && !name.empty() && name[0] != '.') return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("save rows: '", name,
                   "' is not the name of a checkpoint's folder; use letters, digits, - and ."));
}

Status CheckShared(const std::string& directory, const std::string& name) {
  std::error_code problem;
  if (std::filesystem::exists(directory + "/" + name, problem)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "checkpoint.directory: '", directory, "' has no '", name,
      "' here, which the nn-worker has created; use a folder that all daemons see at this path"));
}

}  // namespace

RowSaver::RowSaver(std::string directory, std::vector<TableConfig> tables, uint32_t partitions,
                   OnPartition on_partition)
    : directory_(std::move(directory)),
      tables_(std::move(tables)),
      partitions_(partitions),
      on_partition_(std::move(on_partition)) {}

StatusOr<SaveProgress> RowSaver::Save(const SaveRowsCall& call) {
  if (directory_.empty()) {
    return absl::FailedPreconditionError(
        "save rows: this server has no checkpoint.directory; use the same configuration for all "
        "daemons");
  }
  SIMURGH_RETURN_IF_ERROR(CheckFolder(call.folder));
  if (call.probe) {
    SIMURGH_RETURN_IF_ERROR(CheckShared(directory_, call.folder));
    return SaveProgress{.done = true};
  }
  return task_.StartOrReport(
      absl::StrCat("save rows: ", call.folder), [this, call](RowTask::Progress& progress) {
        StatusOr<std::vector<ModelFile>> result = SaveTables(call, progress);
        if (result.ok()) {
          spdlog::info("saved rows: folder={} rows={}", call.folder, progress.rows.load());
        } else {
          spdlog::error("rows are not saved: {}", std::string(result.status().message()));
        }
        return result;
      });
}

uint64_t RowSaver::RowsOf(uint32_t table) {
  uint64_t rows = 0;
  for (uint32_t p = 0; p < partitions_; ++p) {
    on_partition_(p, [&](const Partition& own) { rows += own.table(table).stats().rows; });
  }
  return rows;
}

StatusOr<std::vector<ModelFile>> RowSaver::SaveTables(const SaveRowsCall& call,
                                                      RowTask::Progress& progress) {
  SIMURGH_RETURN_IF_ERROR(CheckShared(directory_, call.folder));
  for (uint32_t t = 0; t < tables_.size(); ++t) progress.all_rows += RowsOf(t);
  std::vector<ModelFile> files;
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    const std::string name =
        absl::StrCat("rows/", tables_[t].name, "/", call.server, ".safetensors");
    const std::string path = absl::StrCat(directory_, "/", call.folder, "/", name);
    SIMURGH_RETURN_IF_ERROR(FileSystem::Real().MakeFolder(path.substr(0, path.rfind('/'))));
    SIMURGH_ASSIGN_OR_RETURN(ModelFile file, SaveTable(t, path, progress));
    file.path = name;
    files.push_back(std::move(file));
    if (Table::AdmissionTensors(tables_[t], 0).empty()) continue;
    SIMURGH_ASSIGN_OR_RETURN(files.emplace_back(), SaveAdmission(t, call));
  }
  return files;
}

StatusOr<ModelFile> RowSaver::SaveAdmission(uint32_t table, const SaveRowsCall& call) {
  const TableConfig& config = tables_[table];
  const std::string name =
      absl::StrCat("admission/", config.name, "/", call.server, ".safetensors");
  const std::string path = absl::StrCat(directory_, "/", call.folder, "/", name);
  SIMURGH_RETURN_IF_ERROR(FileSystem::Real().MakeFolder(path.substr(0, path.rfind('/'))));
  std::vector<std::vector<std::byte>> parts(Table::AdmissionTensors(config, 0).size());
  uint64_t sketches = 0;
  for (uint32_t p = 0; p < partitions_; ++p) {
    on_partition_(p, [&](const Partition& own) {
      own.table(table).CopyAdmission(parts);
      sketches += own.table(table).sketches();
    });
  }
  SIMURGH_ASSIGN_OR_RETURN(TensorFileWriter writer,
                           TensorFileWriter::Create(path, Table::AdmissionTensors(config, sketches),
                                                    {{"table", config.name}}));
  const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
  SIMURGH_RETURN_IF_ERROR(writer.Append(sketches, views));
  SIMURGH_ASSIGN_OR_RETURN(ModelFile file, writer.Finish());
  file.path = name;
  return file;
}

StatusOr<ModelFile> RowSaver::SaveTable(uint32_t table, const std::string& path,
                                        RowTask::Progress& progress) {
  const TableConfig& config = tables_[table];
  const std::vector<TensorSpec> tensors = Table::FileTensors(config, RowsOf(table));
  SIMURGH_ASSIGN_OR_RETURN(TensorFileWriter writer,
                           TensorFileWriter::Create(path, tensors, Table::FileMetadata(config)));
  std::vector<std::vector<std::byte>> parts(tensors.size());
  std::vector<std::span<const std::byte>> views(tensors.size());
  uint64_t left = tensors[0].rows();
  for (uint32_t p = 0; p < partitions_; ++p) {
    for (uint32_t from = 0;;) {
      if (progress.stopped) return absl::CancelledError("save rows: the server stops");
      for (auto& part : parts) part.clear();
      on_partition_(p, [&](const Partition& own) {
        from = own.table(table).CopyRows(from, kRowsPerPiece, parts);
      });
      const uint64_t rows = parts[0].size() / sizeof(uint64_t);
      if (rows == 0) break;
      if (rows > left) break;  // Finish() reports it.
      left -= rows;
      std::ranges::copy(parts, views.begin());
      SIMURGH_RETURN_IF_ERROR(writer.Append(rows, views));
      progress.rows += rows;
    }
  }
  return writer.Finish();
}

}  // namespace simurgh
