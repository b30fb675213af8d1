#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

#include "simurgh/base/status.h"
#include "simurgh/model/model_directory.h"

namespace simurgh {

// Rows of a table for other programs, in the order of the files. 16-bit numbers become f32.
struct TableExport {
  std::string table;
  std::optional<std::vector<uint64_t>> ids;  // Only rows of these; ids without a row are left out.
  // Also uses, recency and the optimizer's state; otherwise only `id` and `weights`.
  bool has_all_tensors = false;
};

// CSV: a line per row, with `id`, `weights.0` and so on. Errors: of TableReader and `append`.
Status ExportCsv(const Checkpoint& checkpoint, const TableExport& options,
                 absl::FunctionRef<Status(std::string_view text)> append);
// NPZ: an array per tensor. Reads the files once for each tensor.
// Errors: of TableReader and NpzWriter.
Status ExportNpz(const Checkpoint& checkpoint, const TableExport& options, const std::string& path);
// A tensor file. Errors: of TableReader and TensorFileWriter.
Status ExportTensors(const Checkpoint& checkpoint, const TableExport& options,
                     const std::string& path);

}  // namespace simurgh
