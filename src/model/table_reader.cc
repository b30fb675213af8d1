#include "simurgh/model/table_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace simurgh {
namespace {

// In any order: tensors without rows have no place in a file.
bool SameTensors(const RowFile& a, const RowFile& b) {
  const auto b_has = [&b](const TensorSpec& wanted) {
    const auto found = std::ranges::find(b.reader.tensors(), wanted.name, &TensorSpec::name);
    return found != b.reader.tensors().end() && found->dtype == wanted.dtype &&
           found->row_bytes() == wanted.row_bytes();
  };
  return a.metadata == b.metadata && a.reader.tensors().size() == b.reader.tensors().size() &&
         std::ranges::all_of(a.reader.tensors(), b_has);
}

}  // namespace

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
  SIMURGH_ASSIGN_OR_RETURN(reader.servers_, OpenRows(checkpoint, table));
  for (const SavedRows& server : reader.servers_) {
    for (const RowFile& file : server.files) {
      if (!file.reader.tensors().empty() && SameTensors(file, reader.first())) continue;
      return absl::DataLossError(
          absl::StrCat(file.path,
                       ": its tensors are not those of the table's other files; use another "
                       "checkpoint"));
    }
    reader.rows_ += server.rows;
  }
  if (!reader.servers_.empty()) return reader;
  return absl::NotFoundError(absl::StrCat(checkpoint.folder, ": there is no table '", table,
                                          "'; use ",
                                          absl::StrJoin(TablesOf(checkpoint.manifest), ", ")));
}

Status TableReader::ForEachPiece(std::span<const size_t> tensors,
                                 absl::FunctionRef<Status(Parts)> visit) {
  std::vector<std::string> names;
  for (const size_t tensor : tensors) names.push_back(this->tensors()[tensor].name);
  for (SavedRows& server : servers_) {
    SIMURGH_RETURN_IF_ERROR(server.ForEachPiece(names, visit));
  }
  return absl::OkStatus();
}

}  // namespace simurgh
