#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "model/model_directory.h"
#include "model/row_files.h"
#include "model/tensor_file.h"

namespace simurgh {

// Writes numpy's .npz: a zip archive with an uncompressed .npy entry for each tensor, one after
// another. Errors are kept until Finish().
//
// Threads: one owner.
class NpzWriter {
 public:
  explicit NpzWriter(const std::string& path);
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  // Begins the next array and ends the one before. type: numpy's name of a type that DType lacks,
  // such as `<i8`, which replaces that of the tensor; empty: none.
  void Begin(const TensorSpec& tensor, std::string_view type = {});
  void Write(std::span<const std::byte> bytes);
  // Must be the last call. Errors: UNAVAILABLE if the file could not be written.
  Status Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Reads the rows of one table of a checkpoint, over the files of all servers, and of the
// checkpoints that a delta continues.
//
// Threads: one owner.
class TableReader {
 public:
  // Errors: NOT_FOUND for a table that the checkpoint does not have, naming those it has; DATA_LOSS
  // for a file that is not the one in the manifest, or whose tensors are not those of the others;
  // of OpenRows.
  static StatusOr<TableReader> Open(const Checkpoint& checkpoint, const std::string& table);
  // Returns the tables of a checkpoint, sorted.
  static std::vector<std::string> TablesOf(const Manifest& manifest);

  uint64_t rows() const { return rows_; }  // Number of rows on all servers.
  // The tensors of each file, `id` among them. Their shapes have the rows of the first file.
  const std::vector<TensorSpec>& tensors() const { return first().reader.tensors(); }
  const TensorMetadata& metadata() const { return first().metadata; }

  // Calls visit(parts) for each piece of the table, in the order of the files. parts: the piece's
  // rows of each of `tensors`, indexes into tensors().
  // Errors: DATA_LOSS for damage, naming file, tensor and rows; those of `visit`, which end it.
  using Parts = SavedRows::Parts;
  Status ForEachPiece(std::span<const size_t> tensors, absl::FunctionRef<Status(Parts)> visit);

 private:
  const RowFile& first() const { return servers_[0].files[0]; }

  std::vector<SavedRows> servers_;
  uint64_t rows_ = 0;
};

// Rows of a table for other programs, in the order of the files. 16-bit numbers become f32.
struct TableExport {
  std::string table;
  // Exports only rows of these ids; ids without a row are left out. Null: exports all rows.
  std::optional<std::vector<uint64_t>> ids;
  // Exports uses, recency and the optimizer's state, too; otherwise only `id` and `weights`.
  bool has_all_tensors = false;
};

// Calls visit(ids, weights) for each piece of a table's rows. weights: f32, (ids, dim).
// Errors: of TableReader and `visit`.
Status ForEachEmbedding(
    const Checkpoint& checkpoint, const std::string& table,
    absl::FunctionRef<Status(std::span<const uint64_t> ids, std::span<const float> weights)> visit);

// Writes CSV: a line per row, with `id`, `weights.0` and so on. Errors: of TableReader and
// `append`.
Status ExportCsv(const Checkpoint& checkpoint, const TableExport& options,
                 absl::FunctionRef<Status(std::string_view text)> append);
// Writes NPZ: an array per tensor. Reads the files once for each tensor.
// Errors: those of TableReader and NpzWriter.
Status ExportNpz(const Checkpoint& checkpoint, const TableExport& options, const std::string& path);
// Writes a tensor file. Errors: those of TableReader and TensorFileWriter.
Status ExportTensors(const Checkpoint& checkpoint, const TableExport& options,
                     const std::string& path);

}  // namespace simurgh
