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

// Calls visit(file, ids, rows) with pieces of the share's ids, and the numbers of their rows in the
// file. Leaves out rows that newer files have replaced.
template <typename Visit>
Status ForEachIds(SavedRows& saved, const RowShare& share, Visit visit) {
  std::vector<uint64_t> ids;
  std::vector<uint32_t> rows;
  uint64_t read = 0;
  for (size_t f = 0; f < saved.files.size(); ++f) {
    RowFile& file = saved.files[f];
    const uint64_t all = RowsOf(file.reader);
    for (uint64_t first = 0; first < all; first += kRowsPerSum) {
      const uint64_t count = std::min(kRowsPerSum, all - first);
      ids.resize(count);
      rows.clear();
      SIMURGH_RETURN_IF_ERROR(
          file.reader.Read("id", first, count, std::as_writable_bytes(std::span(ids))));
      for (uint64_t i = 0; i < count; ++i) {
        if (!file.Has(ids[i])) continue;
        ++read;
        if (!share.Has(ids[i])) continue;
        ids[rows.size()] = ids[i];
        rows.push_back(static_cast<uint32_t>(first + i));
      }
      ids.resize(rows.size());
      SIMURGH_RETURN_IF_ERROR(visit(f, std::span<const uint64_t>(ids), std::span(rows)));
    }
  }
  return saved.CheckCount(read);
}

// Fills the table of a share from files of all shares.
struct TableFill {
  const TableConfig* config;
  std::vector<SavedRows> saved;
  RowTableBuilder builder;
};

StatusOr<TableFill> CountTable(const TableConfig& config, const RowEncoding& encoding,
                               const RowLoading& loading, std::vector<SavedRows> saved,
                               absl::FunctionRef<Status()> on_piece) {
  SIMURGH_ASSIGN_OR_RETURN(
      RowTableBuilder builder,
      RowTableBuilder::Create(config, encoding, loading.is_mapped,
                              RowsOf(std::span<const SavedRows>(saved)) / loading.share.servers()));
  TableFill fill{&config, std::move(saved), std::move(builder)};
  for (SavedRows& one : fill.saved) {
    for (const RowFile& file : one.files) SIMURGH_RETURN_IF_ERROR(CheckLayout(file, config));
    SIMURGH_RETURN_IF_ERROR(
        ForEachIds(one, loading.share, [&](size_t /*file*/, auto ids, auto /*rows*/) {
          fill.builder.Count(ids);
          return on_piece();
        }));
  }
  return fill;
}

// The rows of a share in a piece of a file.
struct ShareRows {
  std::vector<uint64_t> ids;
  std::vector<const std::byte*> rows;

  void Take(const RowShare& share, std::span<const uint64_t> all, const std::byte* weights,
            size_t row_bytes) {
    ids.clear();
    rows.clear();
    for (size_t i = 0; i < all.size(); ++i) {
      if (!share.Has(all[i])) continue;
      ids.push_back(all[i]);
      rows.push_back(weights + i * row_bytes);
    }
  }
};

Status AddRows(TableFill& fill, SavedRows& saved, const RowLoading& loading,
               absl::FunctionRef<Status(uint64_t rows)> on_rows) {
  const std::vector<std::string> tensors = {"id", "weights"};
  const size_t row_bytes = StoredEncoding(*fill.config).row_bytes();
  ShareRows own;
  return saved.ForEachPiece(tensors, [&](SavedRows::Parts parts) -> Status {
    const std::span<const uint64_t> ids = IdsIn(parts[0]);
    own.Take(loading.share, ids, parts[1].data(), row_bytes);
    SIMURGH_RETURN_IF_ERROR(fill.builder.Add(own.ids, own.rows));
    return on_rows(ids.size());
  });
}

Status MapRows(TableFill& fill, SavedRows& saved, const RowLoading& loading,
               absl::FunctionRef<Status(uint64_t rows)> on_rows) {
  MappedRows& mapped = fill.builder.mapped();
  std::vector<uint32_t> first_rows;  // Indexed by file.
  for (RowFile& file : saved.files) {
    first_rows.push_back(static_cast<uint32_t>(mapped.rows()));
    SIMURGH_ASSIGN_OR_RETURN(auto weights, file.reader.Map("weights"));
    mapped.Add(std::move(weights), RowsOf(file.reader));
  }
  return ForEachIds(saved, loading.share,
                    [&](size_t file, auto ids, std::span<uint32_t> rows) -> Status {
                      for (uint32_t& row : rows) row += first_rows[file];
                      SIMURGH_RETURN_IF_ERROR(fill.builder.AddMapped(ids, rows));
                      return on_rows(ids.size());
                    });
}

// Loads the rows that were counted. on_rows: called with the number of rows of each piece.
StatusOr<RowLayers> FillTable(const Checkpoint& checkpoint, TableFill& fill,
                              const RowLoading& loading,
                              absl::FunctionRef<Status(uint64_t rows)> on_rows) {
  const auto where = [&] {
    return absl::StrCat(checkpoint.folder, ": table '", fill.config->name, "'");
  };
  const uint64_t rows = fill.builder.counted();
  SIMURGH_RETURN_IF_ERROR(fill.builder.EndCount());
  for (SavedRows& one : fill.saved) {
    SIMURGH_RETURN_IF_ERROR(loading.is_mapped ? MapRows(fill, one, loading, on_rows)
                                              : AddRows(fill, one, loading, on_rows));
  }
  StatusOr<std::shared_ptr<const RowTable>> table = fill.builder.Finish();
  if (!table.ok()) return Annotate(table.status(), where());
  return RowLayers({*std::move(table)}, rows);
}

Status CheckAll(std::span<TensorFileReader> files) {
  for (TensorFileReader& file : files) {
    SIMURGH_RETURN_IF_ERROR(CheckWeights(file, /*ends=*/false));
  }
  return absl::OkStatus();
}

// Moves the readers of a table's files.
void TakeReaders(TableFill& fill, std::vector<TensorFileReader>& readers) {
  for (SavedRows& one : fill.saved) {
    for (RowFile& file : one.files) readers.push_back(std::move(file.reader));
  }
}

// Adds the share's rows of a file with these ids.
Status AddFile(RowTableBuilder& builder, TensorFileReader& file, const RowShare& share,
               std::span<const uint64_t> ids, size_t row_bytes) {
  std::vector<std::byte> piece;
  ShareRows own;
  for (uint64_t first = 0; first < ids.size(); first += kRowsPerSum) {
    const uint64_t count = std::min<uint64_t>(kRowsPerSum, ids.size() - first);
    piece.resize(count * row_bytes);
    SIMURGH_RETURN_IF_ERROR(file.Read("weights", first, count, piece));
    own.Take(share, ids.subspan(first, count), piece.data(), row_bytes);
    SIMURGH_RETURN_IF_ERROR(builder.Add(own.ids, own.rows));
  }
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
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> rows_after,
                             RowsAfterDelta(delta.Path(file.path), reader));
    if (!rows_after) {
      files.is_whole = true;
    } else {
      SIMURGH_ASSIGN_OR_RETURN(
          TensorFileReader removed,
          delta.OpenTensors(absl::StrCat("removed", file.path.substr(file.path.find('/')))));
      files.removed.push_back(std::move(removed));
    }
    files.rows_after += rows_after.value_or(0);
    files.rows.push_back(std::move(reader));
  }
  return tables;
}

StatusOr<RowLayers> LoadTableDelta(DeltaFiles& files, const TableConfig& config,
                                   const RowEncoding& encoding, const RowLoading& loading,
                                   const RowLayers& before) {
  const RowShare& share = loading.share;
  std::vector<uint64_t> removed;
  for (TensorFileReader& file : files.removed) {
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ReadIds(file));
    std::ranges::copy_if(ids, std::back_inserter(removed),
                         [&share](uint64_t id) { return share.Has(id); });
  }
  SIMURGH_ASSIGN_OR_RETURN(RowTableBuilder builder,
                           RowTableBuilder::Create(config, encoding, loading.is_mapped,
                                                   RowsOf(files.rows) / share.servers()));
  std::vector<std::vector<uint64_t>> changed;  // The ids of each file, of all shares.
  absl::flat_hash_set<uint64_t> present;
  for (TensorFileReader& file : files.rows) {
    SIMURGH_ASSIGN_OR_RETURN(changed.emplace_back(), ReadIds(file));
    for (const uint64_t id : changed.back()) {
      if (share.Has(id)) present.insert(id);
    }
  }
  const std::vector<uint64_t> ids(present.begin(), present.end());
  builder.Count(ids);
  SIMURGH_RETURN_IF_ERROR(builder.EndCount());
  // An id that was removed and came back has a row.
  std::erase_if(removed, [&present](uint64_t id) { return present.contains(id); });
  for (size_t f = 0; f < files.rows.size(); ++f) {
    TensorFileReader& file = files.rows[f];
    auto row = static_cast<uint32_t>(builder.mapped().rows());
    if (loading.is_mapped) {
      SIMURGH_ASSIGN_OR_RETURN(auto weights, file.Map("weights"));
      builder.mapped().Add(std::move(weights), changed[f].size());
      for (const uint64_t& id : changed[f]) {
        uint32_t number = row++;
        if (!share.Has(id)) continue;
        SIMURGH_RETURN_IF_ERROR(builder.AddMapped(std::span(&id, 1), std::span(&number, 1)));
      }
      SIMURGH_RETURN_IF_ERROR(CheckWeights(file, /*ends=*/false));
      continue;
    }
    SIMURGH_RETURN_IF_ERROR(
        AddFile(builder, file, share, changed[f], StoredEncoding(config).row_bytes()));
  }
  SIMURGH_RETURN_IF_ERROR(builder.Remove(removed));
  SIMURGH_ASSIGN_OR_RETURN(std::shared_ptr<const RowTable> table, builder.Finish());
  SIMURGH_ASSIGN_OR_RETURN(RowLayers layers,
                           before.With(config, encoding, loading.is_mapped, std::move(table)));
  // Files count the rows of all shares together.
  if (!share.has_all() || layers.rows() == files.rows_after) return layers;
  return absl::DataLossError(absl::StrCat("table '", config.name, "': ", layers.rows(),
                                          " rows after the delta instead of ", files.rows_after,
                                          "; use a full checkpoint"));
}

}  // namespace

StatusOr<LoadedRows> LoadRows(const Checkpoint& checkpoint, const std::vector<TableConfig>& tables,
                              const RowLoading& loading, RowProgress progress) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<SavedRows> all, OpenRows(checkpoint));
  const uint64_t all_rows = RowsOf(all);
  std::vector<std::vector<SavedRows>> saved(tables.size());
  for (SavedRows& rows : all) {
    SIMURGH_ASSIGN_OR_RETURN(const uint32_t index, TableIndex(rows.table, tables));
    saved[index].push_back(std::move(rows));
  }
  // A share's part is an estimate: hashes spread ids.
  const auto need = [&](auto rows_of) -> Status {
    uint64_t rows = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < tables.size(); ++i) {
      rows += rows_of(i);
      bytes += RowTable::BytesOf(loading.encodings[i], rows_of(i), loading.is_mapped);
    }
    return bytes > loading.max_bytes ? NoRoom(checkpoint, rows, bytes, loading.max_bytes)
                                     : absl::OkStatus();
  };
  SIMURGH_RETURN_IF_ERROR(need([&](size_t i) {
    return RowsOf(std::span<const SavedRows>(saved[i])) / loading.share.servers();
  }));
  std::vector<TableFill> fills;
  for (size_t i = 0; i < tables.size(); ++i) {
    SIMURGH_ASSIGN_OR_RETURN(
        TableFill fill, CountTable(tables[i], loading.encodings[i], loading, std::move(saved[i]),
                                   [&]() -> Status { return progress(0, all_rows); }));
    fills.push_back(std::move(fill));
  }
  SIMURGH_RETURN_IF_ERROR(need([&](size_t i) { return fills[i].builder.counted(); }));
  LoadedRows loaded;
  std::vector<TensorFileReader> readers;
  uint64_t done = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    SIMURGH_ASSIGN_OR_RETURN(loaded.tables.emplace_back(),
                             FillTable(checkpoint, fills[i], loading, [&](uint64_t count) {
                               return progress(done += count, all_rows);
                             }));
    if (loading.is_mapped) TakeReaders(fills[i], readers);
  }
  if (!loading.is_mapped) return loaded;
  if (loading.checks_first) {
    SIMURGH_RETURN_IF_ERROR(CheckAll(readers));
  } else {
    loaded.check = std::make_shared<WeightsCheck>(std::move(readers));
  }
  return loaded;
}

StatusOr<std::vector<RowLayers>> LoadDelta(const Checkpoint& delta,
                                           const std::vector<TableConfig>& tables,
                                           const RowLoading& loading,
                                           const std::vector<RowLayers>& before) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<DeltaFiles> files, OpenDelta(delta, tables));
  uint64_t rows = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    // A share's part is an estimate: hashes spread ids.
    const uint64_t entries =
        (RowsOf(files[i].rows) + RowsOf(files[i].removed)) / loading.share.servers();
    rows += entries;
    bytes += RowTable::BytesOf(loading.encodings[i], entries, loading.is_mapped);
  }
  if (bytes > loading.max_bytes) return NoRoom(delta, rows, bytes, loading.max_bytes);
  const auto load_whole = [&](size_t i) -> StatusOr<RowLayers> {
    SIMURGH_ASSIGN_OR_RETURN(std::vector<SavedRows> saved, OpenRows(delta, tables[i].name));
    SIMURGH_ASSIGN_OR_RETURN(TableFill fill,
                             CountTable(tables[i], loading.encodings[i], loading, std::move(saved),
                                        [] { return absl::OkStatus(); }));
    SIMURGH_ASSIGN_OR_RETURN(
        RowLayers layers,
        FillTable(delta, fill, loading, [](uint64_t /*rows*/) { return absl::OkStatus(); }));
    if (!loading.is_mapped) return layers;
    std::vector<TensorFileReader> readers;
    TakeReaders(fill, readers);
    SIMURGH_RETURN_IF_ERROR(CheckAll(readers));
    return layers;
  };
  std::vector<RowLayers> all;
  for (size_t i = 0; i < files.size(); ++i) {
    StatusOr<RowLayers> layers =
        files[i].is_whole
            ? load_whole(i)
            : LoadTableDelta(files[i], tables[i], loading.encodings[i], loading, before[i]);
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
