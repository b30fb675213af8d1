#include "predict/version_rows.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "model/row_files.h"
#include "model/tensor_file.h"
#include "table/table.h"

namespace simurgh {
namespace {

// Checks a file's tensors. Errors: INVALID_ARGUMENT unless the rows' weights are those of the
// table.
Status CheckLayout(const RowFile& file, const TableConfig& table) {
  const std::vector<TensorSpec> wanted = Table::FileTensors(table, 0);
  const TensorMetadata metadata = Table::FileMetadata(table);
  const auto describe = [](const std::vector<TensorSpec>& tensors, const TensorMetadata& texts,
                           const char* name) -> std::string {
    const TensorSpec* const found = FindTensor(tensors, name);
    if (found == nullptr) return "missing";
    const auto format = texts.find(absl::StrCat(name, ".format"));
    return absl::StrCat(format == texts.end() ? DTypeName(found->dtype) : format->second, " [N",
                        found->shape.size() < 2 ? "" : absl::StrCat(", ", found->shape[1]), "]");
  };
  for (const char* name : {"id", "weights"}) {
    const std::string saved = describe(file.reader.tensors(), file.metadata, name);
    const std::string configured = describe(wanted, metadata, name);
    if (saved == configured) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        file.path, ": tensor ", name, " is ", saved, ", the model's configuration of table '",
        table.name, "' has ", configured, "; use an undamaged copy of the model"));
  }
  return absl::OkStatus();
}

uint64_t RowsOf(const std::vector<TensorFileReader>& files) {
  uint64_t rows = 0;
  for (const TensorFileReader& file : files) rows += RowsOf(file);
  return rows;
}

uint64_t RowsOf(std::span<const SavedRows> saved) {
  uint64_t rows = 0;
  for (const SavedRows& one : saved) rows += one.rows;
  return rows;
}

Status NoRoom(const Checkpoint& checkpoint, uint64_t rows, uint64_t bytes, uint64_t max_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(checkpoint.folder, ": its ", rows, " rows need ",
                                                   bytes, " bytes, ", max_bytes,
                                                   " are left of the memory budget"));
}

std::span<const uint64_t> IdsIn(const std::vector<std::byte>& part) {
  return {reinterpret_cast<const uint64_t*>(part.data()), part.size() / sizeof(uint64_t)};
}

// Returns the number of the share's rows. on_piece: called for each piece that is read, if any is.
StatusOr<uint64_t> CountRows(std::span<SavedRows> saved, const RowShare& share,
                             absl::FunctionRef<Status()> on_piece) {
  if (share.has_all()) return RowsOf(saved);
  const std::vector<std::string> tensors = {"id"};
  uint64_t rows = 0;
  for (SavedRows& one : saved) {
    SIMURGH_RETURN_IF_ERROR(one.ForEachPiece(tensors, [&](SavedRows::Parts parts) -> Status {
      rows += static_cast<uint64_t>(
          std::ranges::count_if(IdsIn(parts[0]), [&](uint64_t id) { return share.Has(id); }));
      return on_piece();
    }));
  }
  return rows;
}

// Loads the share's rows of one table; `rows` is their number. on_rows: called with the number of
// rows of each piece, those of other shares included.
StatusOr<RowLayers> LoadTable(const Checkpoint& checkpoint, const TableConfig& config,
                              const RowShare& share, std::span<SavedRows> saved, uint64_t rows,
                              absl::FunctionRef<Status(uint64_t rows)> on_rows) {
  const std::vector<std::string> tensors = {"id", "weights"};
  SIMURGH_ASSIGN_OR_RETURN(std::shared_ptr<RowTable> table, RowTable::Create(config, rows, 0));
  const size_t row_bytes = table->row_bytes();
  uint64_t next = 0;
  for (SavedRows& one : saved) {
    for (const RowFile& file : one.files) SIMURGH_RETURN_IF_ERROR(CheckLayout(file, config));
    SIMURGH_RETURN_IF_ERROR(one.ForEachPiece(tensors, [&](SavedRows::Parts parts) -> Status {
      const std::span<const uint64_t> ids = IdsIn(parts[0]);
      // Rows [first, first + count) of the piece.
      const auto take = [&](size_t first, size_t count) -> Status {
        if (next + count > rows) {
          return absl::DataLossError(absl::StrCat(
              one.name, ": more rows than its files announce; use another checkpoint"));
        }
        std::ranges::copy(ids.subspan(first, count), table->ids().subspan(next).begin());
        std::ranges::copy(std::span(parts[1]).subspan(first * row_bytes, count * row_bytes),
                          table->weights().subspan(next * row_bytes).begin());
        next += count;
        return absl::OkStatus();
      };
      if (share.has_all()) {
        SIMURGH_RETURN_IF_ERROR(take(0, ids.size()));
      } else {
        for (size_t i = 0; i < ids.size(); ++i) {
          if (share.Has(ids[i])) SIMURGH_RETURN_IF_ERROR(take(i, 1));
        }
      }
      return on_rows(ids.size());
    }));
  }
  if (next != rows) {
    return absl::DataLossError(absl::StrCat(checkpoint.folder, ": table '", config.name, "' has ",
                                            next, " rows instead of ", rows,
                                            "; use another checkpoint"));
  }
  SIMURGH_RETURN_IF_ERROR(
      Annotate(table->Index(), absl::StrCat(checkpoint.folder, ": table '", config.name, "'")));
  return RowLayers({std::move(table)}, rows);
}

// Reads the weights of the share's rows to the beginning of `to`, and drops the others' ids.
Status ReadWeights(TensorFileReader& file, const RowShare& share, std::vector<uint64_t>& ids,
                   size_t row_bytes, std::span<std::byte> to) {
  if (share.has_all()) return file.Read("weights", 0, ids.size(), to.first(ids.size() * row_bytes));
  std::vector<std::byte> piece;
  size_t kept = 0;
  for (uint64_t first = 0; first < ids.size(); first += kRowsPerSum) {
    const uint64_t count = std::min<uint64_t>(kRowsPerSum, ids.size() - first);
    piece.resize(count * row_bytes);
    SIMURGH_RETURN_IF_ERROR(file.Read("weights", first, count, piece));
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t id = ids[first + i];
      if (!share.Has(id)) continue;
      std::memcpy(to.data() + kept * row_bytes, piece.data() + i * row_bytes, row_bytes);
      ids[kept++] = id;
    }
  }
  ids.resize(kept);
  return absl::OkStatus();
}

// The files that a delta has of a table, over all servers.
struct DeltaFiles {
  bool is_whole = false;  // A file has all rows of its server.
  std::vector<TensorFileReader> rows;
  std::vector<TensorFileReader> removed;
  uint64_t rows_after = 0;
};

StatusOr<std::vector<DeltaFiles>> OpenDelta(const Checkpoint& delta,
                                            const std::vector<TableConfig>& configs) {
  std::vector<DeltaFiles> tables(configs.size());
  for (const ModelFile& file : delta.manifest.files) {
    const std::string name = TableOf(file);
    if (name.empty()) continue;
    SIMURGH_ASSIGN_OR_RETURN(const uint32_t index, TableIndex(name, configs));
    DeltaFiles& files = tables[index];
    SIMURGH_ASSIGN_OR_RETURN(TensorFileReader reader, delta.OpenTensors(file.path));
    const auto after = reader.metadata().find(kRowsAfterDelta);
    uint64_t rows_after = 0;
    if (after == reader.metadata().end()) {
      files.is_whole = true;
    } else if (!absl::SimpleAtoi(after->second, &rows_after)) {
      return absl::DataLossError(
          absl::StrCat(delta.Path(file.path), ": metadata ", kRowsAfterDelta, ": not a number"));
    } else {
      SIMURGH_ASSIGN_OR_RETURN(
          TensorFileReader removed,
          delta.OpenTensors(absl::StrCat("removed", file.path.substr(file.path.find('/')))));
      files.removed.push_back(std::move(removed));
    }
    files.rows_after += rows_after;
    files.rows.push_back(std::move(reader));
  }
  return tables;
}

StatusOr<RowLayers> LoadTableDelta(DeltaFiles& files, const TableConfig& config,
                                   const RowShare& share, const RowLayers& before) {
  std::vector<uint64_t> removed;
  for (TensorFileReader& file : files.removed) {
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ReadIds(file));
    std::ranges::copy_if(ids, std::back_inserter(removed),
                         [&share](uint64_t id) { return share.Has(id); });
  }
  std::vector<std::vector<uint64_t>> changed;  // The ids of each file, of all shares.
  uint64_t rows = 0;
  absl::flat_hash_set<uint64_t> present;
  for (TensorFileReader& file : files.rows) {
    SIMURGH_ASSIGN_OR_RETURN(changed.emplace_back(), ReadIds(file));
    for (const uint64_t id : changed.back()) {
      if (!share.Has(id)) continue;
      ++rows;
      present.insert(id);
    }
  }
  // An id that was removed and came back has a row.
  std::erase_if(removed, [&present](uint64_t id) { return present.contains(id); });
  SIMURGH_ASSIGN_OR_RETURN(std::shared_ptr<RowTable> table,
                           RowTable::Create(config, rows, removed.size()));
  uint64_t next = 0;
  for (size_t i = 0; i < files.rows.size(); ++i) {
    SIMURGH_RETURN_IF_ERROR(ReadWeights(files.rows[i], share, changed[i], table->row_bytes(),
                                        table->weights().subspan(next * table->row_bytes())));
    std::ranges::copy(changed[i], table->ids().subspan(next).begin());
    next += changed[i].size();
  }
  std::ranges::copy(removed, table->ids().subspan(rows).begin());
  SIMURGH_RETURN_IF_ERROR(table->Index());
  SIMURGH_ASSIGN_OR_RETURN(RowLayers layers, before.With(config, std::move(table)));
  // Files count the rows of all shares together.
  if (!share.has_all() || layers.rows() == files.rows_after) return layers;
  return absl::DataLossError(absl::StrCat("table '", config.name, "': ", layers.rows(),
                                          " rows after the delta instead of ", files.rows_after,
                                          "; use a full checkpoint"));
}

}  // namespace

StatusOr<std::vector<RowLayers>> LoadRows(const Checkpoint& checkpoint,
                                          const std::vector<TableConfig>& tables,
                                          const RowShare& share, uint64_t max_bytes,
                                          RowProgress progress) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<SavedRows> all, OpenRows(checkpoint));
  const uint64_t all_rows = RowsOf(all);
  std::vector<std::vector<SavedRows>> saved(tables.size());
  for (SavedRows& rows : all) {
    SIMURGH_ASSIGN_OR_RETURN(const uint32_t index, TableIndex(rows.table, tables));
    saved[index].push_back(std::move(rows));
  }
  std::vector<uint64_t> rows(tables.size());
  uint64_t own_rows = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    SIMURGH_ASSIGN_OR_RETURN(
        rows[i], CountRows(saved[i], share, [&]() -> Status { return progress(0, all_rows); }));
    own_rows += rows[i];
    bytes += RowTable::BytesOf(tables[i], rows[i]);
  }
  if (bytes > max_bytes) return NoRoom(checkpoint, own_rows, bytes, max_bytes);
  std::vector<RowLayers> layers;
  uint64_t done = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    SIMURGH_ASSIGN_OR_RETURN(
        layers.emplace_back(),
        LoadTable(checkpoint, tables[i], share, saved[i], rows[i],
                  [&](uint64_t count) { return progress(done += count, all_rows); }));
  }
  return layers;
}

StatusOr<std::vector<RowLayers>> LoadDelta(const Checkpoint& delta,
                                           const std::vector<TableConfig>& tables,
                                           const RowShare& share,
                                           const std::vector<RowLayers>& before,
                                           uint64_t max_bytes) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<DeltaFiles> files, OpenDelta(delta, tables));
  uint64_t rows = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    // A share's part is an estimate: hashes spread ids.
    const uint64_t entries = (RowsOf(files[i].rows) + RowsOf(files[i].removed)) / share.servers();
    rows += entries;
    bytes += RowTable::BytesOf(tables[i], entries);
  }
  if (bytes > max_bytes) return NoRoom(delta, rows, bytes, max_bytes);
  std::vector<RowLayers> all;
  for (size_t i = 0; i < files.size(); ++i) {
    StatusOr<RowLayers> layers;
    if (files[i].is_whole) {
      SIMURGH_ASSIGN_OR_RETURN(std::vector<SavedRows> saved, OpenRows(delta, tables[i].name));
      SIMURGH_ASSIGN_OR_RETURN(const uint64_t own,
                               CountRows(saved, share, [] { return absl::OkStatus(); }));
      layers = LoadTable(delta, tables[i], share, saved, own,
                         [](uint64_t /*rows*/) { return absl::OkStatus(); });
    } else {
      layers = LoadTableDelta(files[i], tables[i], share, before[i]);
    }
    if (!layers.ok()) return Annotate(layers.status(), delta.folder);
    all.push_back(*std::move(layers));
  }
  return all;
}

StatusOr<std::optional<ChangedIds>> ReadChangedIds(const Checkpoint& delta,
                                                   const std::vector<TableConfig>& tables) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<DeltaFiles> files, OpenDelta(delta, tables));
  if (std::ranges::any_of(files, &DeltaFiles::is_whole)) return std::nullopt;
  ChangedIds changed(tables.size());
  for (size_t i = 0; i < files.size(); ++i) {
    for (auto* const readers : {&files[i].rows, &files[i].removed}) {
      for (TensorFileReader& file : *readers) {
        SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ReadIds(file));
        changed[i].insert(changed[i].end(), ids.begin(), ids.end());
      }
    }
  }
  return changed;
}

}  // namespace simurgh
