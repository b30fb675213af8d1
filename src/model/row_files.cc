#include "model/row_files.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace simurgh {
const TensorSpec* FindTensor(const std::vector<TensorSpec>& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &TensorSpec::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::string DescribeTensor(const TensorSpec& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype), " [", absl::StrJoin(tensor.shape, ", "), "]");
}

uint64_t RowsOf(const TensorFileReader& file) {
  return file.tensors().empty() ? 0 : file.tensors().front().rows();
}

StatusOr<std::vector<uint64_t>> ReadIds(TensorFileReader& file) {
  std::vector<uint64_t> ids(RowsOf(file));
  SIMURGH_RETURN_IF_ERROR(file.Read("id", 0, ids.size(), std::as_writable_bytes(std::span(ids))));
  return ids;
}

StatusOr<std::optional<uint64_t>> RowsAfterDelta(const std::string& path,
                                                 const TensorFileReader& file) {
  const auto found = file.metadata().find(kRowsAfterDelta);
  if (found == file.metadata().end()) return std::nullopt;
  uint64_t rows = 0;
  if (absl::SimpleAtoi(found->second, &rows)) return rows;
  return absl::DataLossError(
      absl::StrCat(path, ": metadata ", kRowsAfterDelta, ": not a number; use another checkpoint"));
}

StatusOr<uint32_t> TableIndex(std::string_view name, const std::vector<TableConfig>& tables) {
  const auto table = std::ranges::find(tables, name, &TableConfig::name);
  if (table != tables.end()) return static_cast<uint32_t>(table - tables.begin());
  return absl::InvalidArgumentError(absl::StrCat(
      "tables: the model has a table '", std::string(name),
      "', the configuration has none; use the tables that the model was trained with"));
}

namespace {

// Readers rely on ids of 8 bytes, and on as many rows of each tensor.
Status CheckIds(const std::string& path, const TensorFileReader& file) {
  const TensorSpec* const id = FindTensor(file.tensors(), "id");
  if (id == nullptr || id->dtype != DType::kU64 || id->shape.size() != 1) {
    return absl::DataLossError(
        absl::StrCat(path, ": there is no tensor id of the type U64 [N]; use another checkpoint"));
  }
  for (const TensorSpec& tensor : file.tensors()) {
    if (tensor.rows() == id->rows()) continue;
    return absl::DataLossError(absl::StrCat(path, ": tensor ", tensor.name, " has ", tensor.rows(),
                                            " rows, tensor id has ", id->rows(),
                                            "; use another checkpoint"));
  }
  return absl::OkStatus();
}

// Drops the rows of a piece that are not in `kept`.
void Compact(std::span<const size_t> kept, size_t row_bytes, std::vector<std::byte>& part) {
  for (size_t i = 0; i < kept.size(); ++i) {
    std::memmove(part.data() + i * row_bytes, part.data() + kept[i] * row_bytes, row_bytes);
  }
  part.resize(kept.size() * row_bytes);
}

}  // namespace

RowFile::RowFile(std::string file_path, TensorFileReader file, std::shared_ptr<const Newest> newest,
                 uint32_t age)
    : path(std::move(file_path)),
      reader(std::move(file)),
      metadata(reader.metadata()),
      newest_(std::move(newest)),
      age_(age) {
  metadata.erase(kRowsAfterDelta);
}

Status SavedRows::ForEachPiece(std::span<const std::string> tensors,
                               absl::FunctionRef<Status(Parts)> visit) {
  std::vector<std::vector<std::byte>> parts(tensors.size());
  std::vector<uint64_t> ids;
  std::vector<size_t> kept;
  uint64_t read = 0;
  for (RowFile& file : files) {
    const uint64_t all = RowsOf(file.reader);
    for (uint64_t row = 0; row < all; row += kRowsPerSum) {
      const uint64_t count = std::min(kRowsPerSum, all - row);
      kept.clear();
      if (!file.has_all()) {
        ids.resize(count);
        SIMURGH_RETURN_IF_ERROR(
            file.reader.Read("id", row, count, std::as_writable_bytes(std::span(ids))));
        for (size_t i = 0; i < count; ++i) {
          if (file.Has(ids[i])) kept.push_back(i);
        }
      }
      read += file.has_all() ? count : kept.size();
      for (size_t i = 0; i < tensors.size(); ++i) {
        const TensorSpec* const tensor = FindTensor(file.reader.tensors(), tensors[i]);
        if (tensor == nullptr) {
          return absl::DataLossError(absl::StrCat(file.path, ": there is no tensor ", tensors[i]));
        }
        parts[i].resize(count * tensor->row_bytes());
        SIMURGH_RETURN_IF_ERROR(file.reader.Read(tensors[i], row, count, parts[i]));
        if (!file.has_all()) Compact(kept, tensor->row_bytes(), parts[i]);
      }
      SIMURGH_RETURN_IF_ERROR(visit(parts));
    }
  }
  return CheckCount(read);
}

Status SavedRows::CheckCount(uint64_t read) const {
  if (read == rows) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(files.back().path, ": with the checkpoints that it continues, the file has ",
                   read, " rows instead of ", rows, "; use a full checkpoint"));
}

std::string TableOf(const ModelFile& file) {
  const std::vector<std::string> parts = absl::StrSplit(file.path, '/');
  const bool has_rows =
      parts.size() == 3 && parts[0] == "rows" && parts[2].ends_with(".safetensors");
  return has_rows ? parts[1] : "";
}

namespace {

// Notes the ids of a delta's file, and those that it has removed.
Status AddIds(const Checkpoint& checkpoint, const std::string& name, uint32_t age, RowFile& rows,
              RowFile::Newest& newest) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> changed, ReadIds(rows.reader));
  const std::string removed_name = absl::StrCat("removed", name.substr(name.find('/')));
  SIMURGH_ASSIGN_OR_RETURN(TensorFileReader reader, checkpoint.OpenTensors(removed_name));
  SIMURGH_RETURN_IF_ERROR(CheckIds(checkpoint.Path(removed_name), reader));
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> removed, ReadIds(reader));
  newest.reserve(newest.size() + changed.size() + removed.size());
  for (const uint64_t id : changed) newest.emplace(id, age);
  for (const uint64_t id : removed) newest.emplace(id, age);
  return absl::OkStatus();
}

// Opens the files of one name over a chain.
StatusOr<SavedRows> OpenFiles(const std::vector<Checkpoint>& chain, const ModelFile& file) {
  SavedRows server{.table = TableOf(file), .name = file.path, .files = {}};
  auto newest = std::make_shared<RowFile::Newest>();
  for (uint32_t age = 0; age < chain.size(); ++age) {
    const Checkpoint& checkpoint = chain[age];
    if (!checkpoint.Has(file.path)) {
      return absl::DataLossError(absl::StrCat(checkpoint.folder, ": there is no ", file.path,
                                              ", which ", chain[age - 1].folder,
                                              " continues; use a full checkpoint"));
    }
    SIMURGH_ASSIGN_OR_RETURN(TensorFileReader reader, checkpoint.OpenTensors(file.path));
    SIMURGH_RETURN_IF_ERROR(CheckIds(checkpoint.Path(file.path), reader));
    RowFile opened(checkpoint.Path(file.path), std::move(reader), newest, age);
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> rows_after,
                             RowsAfterDelta(opened.path, opened.reader));
    const bool is_delta = rows_after.has_value();
    if (is_delta && !checkpoint.manifest.parent.has_value()) {
      return absl::DataLossError(absl::StrCat(opened.path, ": metadata ", kRowsAfterDelta,
                                              ": not a delta of ", checkpoint.folder,
                                              "; use another checkpoint"));
    }
    if (age == 0) server.rows = rows_after.value_or(RowsOf(opened.reader));
    if (is_delta) SIMURGH_RETURN_IF_ERROR(AddIds(checkpoint, file.path, age, opened, *newest));
    server.files.insert(server.files.begin(), std::move(opened));
    if (!is_delta) return server;
  }
  return absl::DataLossError(absl::StrCat(chain.back().folder, ": ", file.path,
                                          " has no full file; use another checkpoint"));
}

}  // namespace

StatusOr<std::map<std::string, uint64_t>> CountRows(const Checkpoint& checkpoint) {
  std::map<std::string, uint64_t> rows;
  for (const ModelFile& file : checkpoint.manifest.files) {
    const std::string table = TableOf(file);
    if (table.empty()) continue;
    SIMURGH_ASSIGN_OR_RETURN(const TensorFileReader reader, checkpoint.OpenTensors(file.path));
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> rows_after,
                             RowsAfterDelta(checkpoint.Path(file.path), reader));
    rows[table] += rows_after.value_or(RowsOf(reader));
  }
  return rows;
}

StatusOr<std::vector<SavedRows>> OpenRows(const Checkpoint& checkpoint, const std::string& table) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<Checkpoint> chain, checkpoint.Chain());
  std::vector<SavedRows> all;
  for (const ModelFile& file : checkpoint.manifest.files) {
    const std::string name = TableOf(file);
    if (name.empty() || (!table.empty() && name != table)) continue;
    SIMURGH_ASSIGN_OR_RETURN(all.emplace_back(), OpenFiles(chain, file));
  }
  return all;
}

}  // namespace simurgh
