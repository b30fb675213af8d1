#include "services/embedding_ps/row_loader.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/log.h"
#include "model/row_files.h"
#include "model/table_export.h"
#include "model/tensor_file.h"

namespace simurgh {
namespace {

// The properties that a file of rows must share with a table: names and values as text.
using Layout = std::vector<std::pair<std::string, std::string>>;

Layout LayoutOf(const std::vector<TensorSpec>& tensors, const TensorMetadata& metadata) {
  Layout layout;
  for (const TensorSpec& tensor : tensors) {
    layout.emplace_back("tensor " + tensor.name, DescribeTensor(tensor));
  }
  for (const auto& [key, value] : metadata) {
    layout.emplace_back(key, absl::StrCat("'", value, "'"));
  }
  return layout;
}

// Errors: INVALID_ARGUMENT if the file's rows are not those of the table.
Status CheckLayout(const RowFile& file, const TableConfig& table) {
  const Layout saved = LayoutOf(file.reader.tensors(), file.metadata);
  const Layout configured =
      LayoutOf(Table::FileTensors(table, RowsOf(file.reader)), Table::FileMetadata(table));
  const auto text = [](const Layout& layout, const std::string& name) {
    const auto found = std::ranges::find(layout, name, &Layout::value_type::first);
    return found == layout.end() ? "missing" : found->second;
  };
  for (const Layout* const layout : {&configured, &saved}) {
    for (const auto& [name, unused] : *layout) {
      const std::string own = text(saved, name);
      const std::string wanted = text(configured, name);
      if (own == wanted) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "tables: table '", table.name, "': ", name, " is ", own, " in the model and ", wanted,
          " in the configuration; use the dim, precision and optimizer that the model "
          "was trained with"));
    }
  }
  return absl::OkStatus();
}

Status CheckTables(const std::vector<SavedRows>& servers, const std::vector<TableConfig>& tables) {
  std::vector<bool> is_saved(tables.size());
  for (const SavedRows& rows : servers) {
    SIMURGH_ASSIGN_OR_RETURN(const uint32_t index, TableIndex(rows.table, tables));
    is_saved[index] = true;
    for (const RowFile& file : rows.files) {
      SIMURGH_RETURN_IF_ERROR(CheckLayout(file, tables[index]));
    }
  }
  const auto missing = std::ranges::find(is_saved, false);
  if (missing == is_saved.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tables: the configuration has a table '",
                   tables[static_cast<size_t>(missing - is_saved.begin())].name,
                   "', the model has none; use the tables that the model was trained with"));
}

// Puts the admission sketches of the server's buckets. Sketches of another width are left out: ids
// are then counted anew.
Status LoadAdmission(const Checkpoint& checkpoint, const RowTarget& target) {
  for (const ModelFile& file : checkpoint.manifest.files) {
    const std::vector<std::string> names = absl::StrSplit(file.path, '/');
    if (names.size() != 3 || names[0] != "admission") continue;
    const auto table = std::ranges::find(target.tables, names[1], &TableConfig::name);
    if (table == target.tables.end()) continue;
    SIMURGH_ASSIGN_OR_RETURN(TensorFileReader reader, checkpoint.OpenTensors(file.path));
    const std::vector<TensorSpec> tensors = Table::AdmissionTensors(*table, 0);
    std::vector<std::vector<std::byte>> parts;
    const uint64_t rows = RowsOf(reader);
    for (const TensorSpec& tensor : tensors) {
      const TensorSpec* const found = FindTensor(reader.tensors(), tensor.name);
      if (found == nullptr || found->row_bytes() != tensor.row_bytes()) break;
      if (found->rows() != rows) {
        return absl::DataLossError(
            absl::StrCat(checkpoint.Path(file.path), ": tensor ", tensor.name, " has ",
                         found->rows(), " rows instead of ", rows, "; use another checkpoint"));
      }
      parts.emplace_back(rows * tensor.row_bytes());
      SIMURGH_RETURN_IF_ERROR(reader.Read(tensor.name, 0, rows, parts.back()));
    }
    if (tensors.empty() || parts.size() != tensors.size()) continue;
    const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
    std::vector<Status> results(target.map.partitions());
    target.partitions.on_all([&](uint32_t p, Partition& partition) {
      const uint32_t slot = target.server * target.map.partitions() + p;
      results[p] = partition.table(static_cast<size_t>(table - target.tables.begin()))
                       .PutAdmission(views, [&](uint16_t bucket) {
                         return target.map.SlotOfBucket(bucket) == slot;
                       });
    });
    for (const Status& result : results) SIMURGH_RETURN_IF_ERROR(result);
  }
  return absl::OkStatus();
}

// Reads a piece of a file, and then puts the server's rows of it.
class PieceLoader {
 public:
  PieceLoader(RowFile& file, uint32_t table, const RowTarget& target)
      : file_(file),
        table_(table),
        target_(target),
        tensors_(Table::FileTensors(target.tables[table], 0)),
        values_(tensors_.size()),
        rows_(target.map.partitions()),
        results_(target.map.partitions()) {}
  PieceLoader(const PieceLoader&) = delete;
  PieceLoader& operator=(const PieceLoader&) = delete;
  ~PieceLoader() { AwaitPut().IgnoreError(); }

  // The rows read that no newer file has replaced, including rows of other servers.
  struct ReadRows {
    uint64_t rows = 0;
    uint64_t newest = 0;  // The newest stamp.
  };
  StatusOr<ReadRows> Read(uint64_t first, uint64_t count) {
    SIMURGH_RETURN_IF_ERROR(ReadTensor(kId, first, count));
    SIMURGH_RETURN_IF_ERROR(ReadTensor(kRecency, first, count));
    for (std::vector<uint32_t>& rows : rows_) rows.clear();
    ReadRows read;
    owns_ = false;
    for (uint32_t row = 0; row < count; ++row) {
      if (!file_.Has(NumberAt(kId, row))) continue;
      ++read.rows;
      read.newest = std::max(read.newest, NumberAt(kRecency, row));
      const uint32_t slot = target_.map.SlotOf(NumberAt(kId, row));
      if (slot / target_.map.partitions() != target_.server) continue;
      rows_[slot % target_.map.partitions()].push_back(row);
      owns_ = true;
    }
    if (!owns_) return read;
    for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
      if (tensor == kId || tensor == kRecency) continue;
      SIMURGH_RETURN_IF_ERROR(ReadTensor(tensor, first, count));
    }
    return read;
  }

  // Starts to put the rows that Read() has found. Read() of another piece may run meanwhile.
  void Put() {
    if (!owns_) return;
    parts_.assign(values_.begin(), values_.end());
    for (uint32_t p = 0; p < rows_.size(); ++p) {
      puts_.push_back(target_.partitions.on_one(p, [this, p](Partition& partition) {
        results_[p] = partition.table(table_).PutRows(parts_, rows_[p]);
      }));
    }
  }

  // Waits until the rows have been put.
  Status AwaitPut() {
    for (std::future<void>& put : puts_) put.get();
    puts_.clear();
    for (const Status& result : results_) SIMURGH_RETURN_IF_ERROR(result);
    return absl::OkStatus();
  }

 private:
  // Positions in Table::FileTensors().
  static constexpr size_t kId = 0;
  static constexpr size_t kRecency = 2;

  uint64_t NumberAt(size_t tensor, uint64_t row) const {
    uint64_t number = 0;
    std::memcpy(&number, values_[tensor].data() + row * sizeof(number), sizeof(number));
    return number;
  }

  Status ReadTensor(size_t tensor, uint64_t first, uint64_t count) {
    values_[tensor].resize(count * tensors_[tensor].row_bytes());
    return file_.reader.Read(tensors_[tensor].name, first, count, values_[tensor]);
  }

  RowFile& file_;
  const uint32_t table_;
  const RowTarget& target_;
  const std::vector<TensorSpec> tensors_;
  std::vector<std::vector<std::byte>> values_;  // One per tensor. The puts read them.
  std::vector<std::span<const std::byte>> parts_;
  std::vector<std::vector<uint32_t>> rows_;  // Rows of the piece to put, one list per partition.
  bool owns_ = false;                        // rows_ has a row.
  std::vector<std::future<void>> puts_;
  std::vector<Status> results_;  // One per partition.
};

Status LoadFile(
    RowFile& file, uint32_t table, const RowTarget& target,
    absl::FunctionRef<Status(const PieceLoader::ReadRows& read, uint64_t rows)> on_read) {
  // A piece is read while the partitions put the previous one.
  std::array<PieceLoader, 2> loaders = {PieceLoader(file, table, target),
                                        PieceLoader(file, table, target)};
  PieceLoader* loader = &loaders[0];
  PieceLoader* previous = &loaders[1];
  const uint64_t rows = RowsOf(file.reader);
  for (uint64_t first = 0; first < rows; first += kRowsPerSum) {
    const uint64_t count = std::min(kRowsPerSum, rows - first);
    SIMURGH_ASSIGN_OR_RETURN(const PieceLoader::ReadRows read, loader->Read(first, count));
    SIMURGH_RETURN_IF_ERROR(previous->AwaitPut());
    loader->Put();
    std::swap(loader, previous);
    SIMURGH_RETURN_IF_ERROR(on_read(read, count));
  }
  return previous->AwaitPut();
}

}  // namespace

Status LoadRows(const Checkpoint& checkpoint, const RowTarget& target, LoadProgress progress) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<SavedRows> servers, OpenRows(checkpoint));
  SIMURGH_RETURN_IF_ERROR(CheckTables(servers, target.tables));
  uint64_t all_rows = 0;
  for (const SavedRows& rows : servers) {
    for (const RowFile& file : rows.files) all_rows += RowsOf(file.reader);
  }
  uint64_t done = 0;
  uint64_t newest = 0;
  for (SavedRows& rows : servers) {
    SIMURGH_ASSIGN_OR_RETURN(const uint32_t table, TableIndex(rows.table, target.tables));
    uint64_t read_rows = 0;
    for (RowFile& file : rows.files) {
      SIMURGH_RETURN_IF_ERROR(
          LoadFile(file, table, target, [&](const PieceLoader::ReadRows& read, uint64_t count) {
            newest = std::max(newest, read.newest);
            read_rows += read.rows;
            done += count;
            return progress(done, all_rows);
          }));
    }
    SIMURGH_RETURN_IF_ERROR(rows.CheckCount(read_rows));
  }
  SIMURGH_RETURN_IF_ERROR(LoadAdmission(checkpoint, target));
  target.partitions.on_all(
      [&](uint32_t /*partition*/, Partition& partition) { partition.ContinueAt(newest); });
  return absl::OkStatus();
}

namespace {

// Checks that the file fits the table. Returns the number of rows.
StatusOr<uint64_t> CheckTensors(const TensorFileReader& file, const TableConfig& table) {
  const TensorSpec* const id = FindTensor(file.tensors(), "id");
  const uint64_t rows = id == nullptr ? 0 : id->rows();
  const std::vector<TensorSpec> wanted = {{"id", DType::kU64, {rows}},
                                          {"weights", DType::kF32, {rows, table.dim}}};
  for (const TensorSpec& tensor : wanted) {
    const TensorSpec* const own = FindTensor(file.tensors(), tensor.name);
    if (own != nullptr && *own == tensor) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("table '", table.name, "': tensor ", tensor.name, ": the file has ",
                     own == nullptr ? "none" : DescribeTensor(*own), ", the table needs ",
                     DescribeTensor(tensor),
                     "; use a file that `simurgh export embeddings` has written "
                     "for a table of this dim"));
  }
  return rows;
}

// The rows of a piece for one partition.
struct Share {
  std::vector<uint64_t> ids;
  std::vector<float> weights;
  Status result;
};

// Puts the rows that this server owns. Returns their number.
StatusOr<uint64_t> PutOwn(std::span<const uint64_t> ids, std::span<const float> weights,
                          size_t table, const RowTarget& target) {
  const uint32_t dim = target.tables[table].dim;
  const uint32_t partitions = target.map.partitions();
  uint64_t own = 0;
  std::vector<Share> shares(partitions);
  for (uint64_t row = 0; row < ids.size(); ++row) {
    const uint32_t slot = target.map.SlotOf(ids[row]);
    if (slot / partitions != target.server) continue;
    Share& share = shares[slot % partitions];
    const auto from = weights.begin() + static_cast<std::ptrdiff_t>(row * dim);
    share.ids.push_back(ids[row]);
    share.weights.insert(share.weights.end(), from, from + dim);
    ++own;
  }
  target.partitions.on_all([&](uint32_t p, Partition& partition) {
    shares[p].result = partition.table(table).PutInitialRows(shares[p].ids, shares[p].weights);
  });
  for (const Share& share : shares) SIMURGH_RETURN_IF_ERROR(share.result);
  return own;
}

// Puts the file's rows that this server owns, and returns their number. on_rows: called after each
// piece with the number of rows read.
StatusOr<uint64_t> LoadTable(TensorFileReader& file, uint64_t rows, size_t table,
                             const RowTarget& target, absl::FunctionRef<Status(uint64_t)> on_rows) {
  uint64_t own = 0;
  for (uint64_t first = 0; first < rows; first += kRowsPerSum) {
    const uint64_t count = std::min(kRowsPerSum, rows - first);
    std::vector<uint64_t> ids(count);
    std::vector<float> weights(count * target.tables[table].dim);
    SIMURGH_RETURN_IF_ERROR(file.Read("id", first, count, std::as_writable_bytes(std::span(ids))));
    SIMURGH_RETURN_IF_ERROR(
        file.Read("weights", first, count, std::as_writable_bytes(std::span(weights))));
    SIMURGH_ASSIGN_OR_RETURN(const uint64_t put, PutOwn(ids, weights, table, target));
    own += put;
    SIMURGH_RETURN_IF_ERROR(on_rows(count));
  }
  return own;
}

uint64_t RowsOfTable(const RowTarget& target, size_t table) {
  uint64_t rows = 0;
  for (uint32_t p = 0; p < target.map.partitions(); ++p) {
    target.partitions
        .on_one(p, [&](Partition& partition) { rows += partition.table(table).stats().rows; })
        .get();
  }
  return rows;
}

void WarnOfLost(const TableConfig& table, uint64_t own, uint64_t kept) {
  if (kept >= own) return;
  spdlog::warn("table '{}': {} initial rows did not fit; raise its capacity", table.name,
               own - kept);
}

}  // namespace

Status LoadStartRows(const Checkpoint& checkpoint, const RowTarget& target, LoadProgress progress) {
  const std::vector<std::string> saved = TableReader::TablesOf(checkpoint.manifest);
  uint64_t done = 0;
  for (size_t t = 0; t < target.tables.size(); ++t) {
    const TableConfig& table = target.tables[t];
    if (!table.initial_rows.empty()) continue;
    const auto leave_out = [&](const std::string& reason) {
      spdlog::info("start_from: table={} begins without rows: {}", table.name, reason);
    };
    if (std::ranges::find(saved, table.name) == saved.end()) {
      leave_out("the model has no table of this name");
      continue;
    }
    SIMURGH_ASSIGN_OR_RETURN(const TableReader reader, TableReader::Open(checkpoint, table.name));
    const TensorSpec* const weights = FindTensor(reader.tensors(), "weights");
    const uint64_t dim = weights == nullptr || weights->shape.size() != 2 ? 0 : weights->shape[1];
    if (dim != table.dim) {
      leave_out(absl::StrCat("its dim is ", dim, " in the model, ", table.dim, " here"));
      continue;
    }
    uint64_t own = 0;
    SIMURGH_RETURN_IF_ERROR(
        ForEachEmbedding(checkpoint, table.name, [&](auto ids, auto values) -> Status {
          SIMURGH_ASSIGN_OR_RETURN(const uint64_t put, PutOwn(ids, values, t, target));
          own += put;
          done += ids.size();
          return progress(done, std::max(done, reader.rows()));
        }));
    const uint64_t kept = RowsOfTable(target, t);
    spdlog::info("start_from: table={} rows={} model={}", table.name, kept, checkpoint.folder);
    WarnOfLost(table, own, kept);
  }
  return absl::OkStatus();
}

Status LoadInitialRows(const RowTarget& target, LoadProgress progress) {
  uint64_t done = 0;
  for (size_t t = 0; t < target.tables.size(); ++t) {
    const TableConfig& table = target.tables[t];
    if (table.initial_rows.empty()) continue;
    const auto load = [&]() -> Status {
      SIMURGH_ASSIGN_OR_RETURN(TensorFileReader file, TensorFileReader::Open(table.initial_rows));
      SIMURGH_ASSIGN_OR_RETURN(const uint64_t rows, CheckTensors(file, table));
      SIMURGH_ASSIGN_OR_RETURN(const uint64_t own,
                               LoadTable(file, rows, t, target, [&](uint64_t read) {
                                 done += read;
                                 return progress(done, std::max(done, rows));
                               }));
      const uint64_t kept = RowsOfTable(target, t);
      spdlog::info("loaded initial rows: table={} file={} rows={}", table.name, table.initial_rows,
                   kept);
      WarnOfLost(table, own, kept);
      return absl::OkStatus();
    };
    SIMURGH_RETURN_IF_ERROR(Annotate(load(), absl::StrCat("initial_rows ", table.initial_rows)));
  }
  return absl::OkStatus();
}

}  // namespace simurgh
