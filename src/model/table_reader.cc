#include "simurgh/model/table_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace simurgh {
namespace {

// In any order: tensors without rows have no place in a file.
bool SameTensors(const TensorFileReader& a, const TensorFileReader& b) {
  const auto b_has = [&b](const TensorSpec& wanted) {
    const auto found = std::ranges::find(b.tensors(), wanted.name, &TensorSpec::name);
    return found != b.tensors().end() && found->dtype == wanted.dtype &&
           found->row_bytes() == wanted.row_bytes();
  };
  return a.metadata() == b.metadata() && a.tensors().size() == b.tensors().size() &&
         std::ranges::all_of(a.tensors(), b_has);
}

}  // namespace

std::string TableReader::TableOf(const ModelFile& file) {
  const std::vector<std::string> parts = absl::StrSplit(file.path, '/');
  const bool has_rows =
      parts.size() == 3 && parts[0] == "rows" && parts[2].ends_with(".safetensors");
  return has_rows ? parts[1] : "";
}

std::vector<std::string> TableReader::TablesOf(const Manifest& manifest) {
  std::vector<std::string> tables;
  for (const ModelFile& file : manifest.files) {
    const std::string table = TableOf(file);
    if (!table.empty()) tables.push_back(table);
  }
  std::ranges::sort(tables);
  tables.erase(std::ranges::unique(tables).begin(), tables.end());
  return tables;
}

StatusOr<TableReader> TableReader::Open(const Checkpoint& checkpoint, const std::string& table) {
  TableReader reader;
  for (const ModelFile& file : checkpoint.manifest.files) {
    if (TableOf(file) != table) continue;
    SIMURGH_ASSIGN_OR_RETURN(TensorFileReader one, checkpoint.OpenTensors(file.path));
    if (one.tensors().empty() || (!reader.files_.empty() && !SameTensors(one, reader.files_[0]))) {
      return absl::DataLossError(absl::StrCat(
          checkpoint.Path(file.path),
          ": its tensors are not those of the table's other files; use another checkpoint"));
    }
    reader.rows_ += one.tensors()[0].rows();
    reader.files_.push_back(std::move(one));
  }
  if (!reader.files_.empty()) return reader;
  return absl::NotFoundError(absl::StrCat(checkpoint.folder, ": there is no table '", table,
                                          "'; use ",
                                          absl::StrJoin(TablesOf(checkpoint.manifest), ", ")));
}

Status TableReader::ForEachPiece(std::span<const size_t> tensors,
                                 absl::FunctionRef<Status(Parts)> visit) {
  std::vector<std::vector<std::byte>> parts(tensors.size());
  for (TensorFileReader& file : files_) {
    const uint64_t all = file.tensors()[0].rows();
    for (uint64_t row = 0; row < all; row += kRowsPerSum) {
      const uint64_t rows = std::min(kRowsPerSum, all - row);
      for (size_t i = 0; i < tensors.size(); ++i) {
        const TensorSpec& tensor = this->tensors()[tensors[i]];
        parts[i].resize(rows * tensor.row_bytes());
        SIMURGH_RETURN_IF_ERROR(file.Read(tensor.name, row, rows, parts[i]));
      }
      SIMURGH_RETURN_IF_ERROR(visit(parts));
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh
